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
	"sync"
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
		for round := 0; round < 2; round++ {
			transport := &http.Transport{TLSClientConfig: config}
			client := &http.Client{Transport: transport}
			for request := 0; request < 5; request++ {
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
	multiplexed(roots, content, os.Args[2])
	fmt.Println("done")
}

// multiplexed asks 32 times at once by HTTP/2, for all of the file and for parts of it, and gives some answers up.
func multiplexed(roots *x509.CertPool, content []byte, url string) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	client := &http.Client{Transport: transport}
	var group sync.WaitGroup
	for n := 0; n < 32; n++ {
		n := n // Go before 1.22 has one for all rounds.
		group.Add(1)
		go func() {
			defer group.Done()
			request, err := http.NewRequest("GET", url+"/content", nil)
			check(err)
			status, first, last := 200, 0, len(content)-1
			if n%2 == 1 {
				status, first, last = 206, n*1000, n*90000
				request.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", first, last))
			}
			got, err := client.Do(request)
			check(err)
			if got.ProtoMajor != 2 || got.StatusCode != status {
				log.Fatalf("%s %s", got.Proto, got.Status)
			}
			defer got.Body.Close()
			if n%8 == 0 {
				_, err := io.ReadFull(got.Body, make([]byte, 1000))
				check(err)
				return
			}
			body, err := io.ReadAll(got.Body)
			check(err)
			if !bytes.Equal(body, content[first:last+1]) {
				log.Fatalf("%d: %d bytes, or others", n, len(body))
			}
		}()
	}
	group.Wait()
	posted, err := client.Post(url+"/content", "text/plain", bytes.NewReader(content[:200000]))
	check(err)
	if posted.StatusCode != 405 {
		log.Fatal(posted.Status)
	}
	transport.CloseIdleConnections()
}
