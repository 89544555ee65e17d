// A client of https: client AUTHORITY URL FILE. The file is what URL/content must be.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	authority, err := os.ReadFile(os.Args[1])
	check(err)
	content, err := os.ReadFile(os.Args[3])
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := &tls.Config{
			RootCAs: roots, MinVersion: version, MaxVersion: version,
			ClientSessionCache: tls.NewLRUClientSessionCache(1),
		}
		for round := range 2 {
			transport := &http.Transport{TLSClientConfig: config}
			client := &http.Client{Transport: transport}
			for request := range 5 {
				got, err := client.Get(os.Args[2] + "/content")
				check(err)
				body, err := io.ReadAll(got.Body)
				check(err)
				if got.StatusCode != 200 || !bytes.Equal(body, content) {
					log.Fatalf("%s, %d bytes", got.Status, len(body))
				}
				// A machine that is busy makes the client open another connection within a round.
				if got.TLS.Version != version || request == 0 && got.TLS.DidResume != (round == 1) {
					log.Fatalf("version %x, round %d, resumed %v", got.TLS.Version, round, got.TLS.DidResume)
				}
				missing, err := client.Get(os.Args[2] + "/none")
				check(err)
				_, err = io.ReadAll(missing.Body)
				check(err)
				if missing.StatusCode != 404 {
					log.Fatal(missing.Status)
				}
			}
			transport.CloseIdleConnections()
		}
	}
	fmt.Println("done")
}
