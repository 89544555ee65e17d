{{- define "quintet.name" -}}
{{- printf "%s-%s" .root.Release.Name .server | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "quintet.selector" -}}
app.kubernetes.io/name: {{ .server }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{- define "quintet.labels" -}}
{{ include "quintet.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: quintet
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{- define "quintet.image" -}}
{{ .root.Values.image.prefix }}-{{ .server }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end -}}

{{/* Fields of a pod that do not depend on the server. */}}
{{- define "quintet.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
# The drain (30 s), after the delay before it.
terminationGracePeriodSeconds: {{ add 40 .root.Values.endpointDelaySeconds }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "quintet.selector" $ | nindent 8 }}
  {{- end }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.pod.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.pod.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.pod.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* Fields of a container that do not depend on the server. */}}
{{- define "quintet.container" -}}
name: {{ .server }}
image: {{ include "quintet.image" . }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources: {{ toYaml .values.resources | nindent 2 }}
# A snapshot is loaded before it is ready; two minutes are several GiB.
startupProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 1
  failureThreshold: 120
# Unready while it drains: it gets no new connections.
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 2
# Slow to give up: a restart costs all connections, and a cache its keys.
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
lifecycle:
  preStop:
    # The pod is taken off the services meanwhile; only then SIGTERM has it drain.
    exec: {command: [sleep, {{ .root.Values.endpointDelaySeconds | quote }}]}
{{- end -}}

{{/* A disruption budget, a network policy and a monitor. */}}
{{- define "quintet.surroundings" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "quintet.name" . }}
  labels:
    {{- include "quintet.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "quintet.selector" . | nindent 6 }}
{{- if .root.Values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "quintet.name" . }}
  labels:
    {{- include "quintet.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "quintet.selector" . | nindent 6 }}
  # A server connects to nobody.
  policyTypes: [Ingress, Egress]
  ingress:
    - ports:
        {{- range .ports }}
        - {protocol: TCP, port: {{ . }}}
        {{- end }}
      {{- with .root.Values.networkPolicy.from }}
      from: {{ toYaml . | nindent 8 }}
      {{- end }}
    - ports:
        - {protocol: TCP, port: metrics}
      {{- with .root.Values.networkPolicy.metricsFrom }}
      from: {{ toYaml . | nindent 8 }}
      {{- end }}
{{- end }}
{{- if .root.Values.serviceMonitor.enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ include "quintet.name" . }}
  labels:
    {{- include "quintet.labels" . | nindent 4 }}
    {{- with .root.Values.serviceMonitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "quintet.selector" . | nindent 6 }}
      quintet/metrics: "true"
  endpoints:
    - port: metrics
      interval: {{ .root.Values.serviceMonitor.interval }}
      # The alerts go by this name.
      relabelings:
        - {targetLabel: job, replacement: quintet}
{{- end }}
{{- end -}}
