{{- define "groupcomm.labels" -}}
app: {{ .Release.Name }}
{{- end }}

{{- define "groupcomm.security" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "groupcomm.confined" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
{{- end }}

{{- define "groupcomm.config" -}}
cluster = {{ .Values.cluster | quote }}
key_file = "/var/lib/groupcomm/keys/plant.key"
drain_s = {{ .Values.drainS | float64 | printf "%.1f" }}
[http]
listen = "0.0.0.0:4805"
tokens = "/var/lib/groupcomm/keys/http.tokens"
{{- if .Values.tls.secret }}
[clients]
tokens = "/var/lib/groupcomm/keys/tokens"
[clients.tls]
address = "0.0.0.0:4804"
certificate = "/var/lib/groupcomm/keys/tls.crt"
key = "/var/lib/groupcomm/keys/tls.key"
ca = "/var/lib/groupcomm/keys/ca.crt"
{{- end }}
[sites.local.daemons]
{{- if eq .Values.form "nodes" }}
{{- if not .Values.nodes }}{{ fail "nodes: name each node and its address, for form nodes" }}{{ end }}
{{- range $name, $address := .Values.nodes }}
{{ $name | quote }} = "{{ $address }}:4803"
{{- end }}
{{- else }}
# The names of the pods, which their addresses follow.
{{- range $at := until (int .Values.replicas) }}
{{ $.Release.Name }}-{{ $at }} = "{{ $.Release.Name }}-{{ $at }}.{{ $.Release.Name }}:4803"
{{- end }}
{{- end }}
{{- with .Values.config }}
{{ . }}
{{- end }}
{{- end }}

{{- define "groupcomm.pod" -}}
terminationGracePeriodSeconds: {{ add .Values.drainS 20 }} # a drain, an orderly leave, and some to spare
securityContext:
  {{- include "groupcomm.security" . | nindent 2 }}
initContainers:
  # The daemon writes its key anew when keys change, so it has a copy; a secret cannot be written.
  - name: key
    image: {{ .Values.image }}
    command:
      - sh
      - -ec
      - |
        cd /var/lib/groupcomm
        install -d -m 700 keys
        test -e keys/plant.key || install -m 600 /secret/plant.key keys
        install -m 600 /secret/http.tokens keys
        {{- if .Values.tls.secret }}
        install -m 600 /tls/tls.crt /tls/tls.key /tls/ca.crt /tls/tokens keys
        {{- end }}
    securityContext:
      {{- include "groupcomm.confined" . | nindent 6 }}
    volumeMounts:
      - {name: state, mountPath: /var/lib/groupcomm}
      - {name: secret, mountPath: /secret, readOnly: true}
      {{- if .Values.tls.secret }}
      - {name: tls, mountPath: /tls, readOnly: true}
      {{- end }}
containers:
  - name: daemon
    image: {{ .Values.image }}
    args: [--name, $(DAEMON_NAME)]
    env:
      - name: DAEMON_NAME
        valueFrom: {fieldRef: {fieldPath: {{ eq .Values.form "nodes" | ternary "spec.nodeName" "metadata.name" }}}}
      - {name: XDG_RUNTIME_DIR, value: /run/shared} # the daemon makes a folder there, its own user's alone
    ports:
      - {name: daemons, containerPort: 4803, protocol: UDP}
      - {name: programs, containerPort: 4804}
      - {name: http, containerPort: 4805}
    startupProbe:
      httpGet: {path: /livez, port: http}
      periodSeconds: 1
      failureThreshold: 60
    livenessProbe:
      httpGet: {path: /livez, port: http}
      timeoutSeconds: 5
    readinessProbe:
      httpGet: {path: /readyz, port: http}
      periodSeconds: 2
    lifecycle:
      preStop:
        exec: {command: [groupcomm, drain, --within-s, {{ .Values.drainS | quote }}]}
    securityContext:
      {{- include "groupcomm.confined" . | nindent 6 }}
    {{- with .Values.resources }}
    resources:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    volumeMounts:
      - {name: config, mountPath: /etc/groupcomm, readOnly: true}
      - {name: state, mountPath: /var/lib/groupcomm}
      - {name: run, mountPath: /run/shared}
  {{- with .Values.sidecars }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
volumes:
  - name: config
    configMap: {name: {{ .Release.Name }}}
  - name: secret
    secret: {secretName: {{ .Values.secret }}}
  {{- if .Values.tls.secret }}
  - name: tls
    secret: {secretName: {{ .Values.tls.secret }}}
  {{- end }}
{{- end }}
