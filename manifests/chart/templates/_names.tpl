{{- /* The labels of every object. Pods are selected by the first one alone, which never changes. */ -}}
{{- define "grove-admission.labels" -}}
app.kubernetes.io/name: grove-admission
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "grove-admission.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "grove-admission.config" -}}
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
{{- $config := deepCopy .Values.config -}}
{{- if .Values.clientCaConfigMap -}}
{{- $file := "/etc/grove-admission-client-ca/ca.crt" -}}
{{- $config = mergeOverwrite $config (dict "server" (dict "clientCaFile" $file)) -}}
{{- end }}
{{ toYaml $config }}
{{- end -}}

{{- /* A changed configuration has another name, so that the replicas are replaced one by one. */ -}}
{{- define "grove-admission.configuration" -}}
grove-admission-configuration-{{ include "grove-admission.config" . | sha256sum | trunc 10 }}
{{- end -}}

{{- /* Who may write the managed topology, as a list in JSON: as the server reads the values. */ -}}
{{- define "grove-admission.users" -}}
{{- $ours := printf "system:serviceaccount:%s:grove-admission" .Release.Namespace -}}
{{- $users := list $ours "system:serviceaccount:grove-system:grove-operator" -}}
{{- with .Values.config.authorization -}}
{{- if hasKey . "authorizedUsers" -}}{{- $users = .authorizedUsers -}}{{- end -}}
{{- end -}}
{{- $quoted := list -}}
{{- range $users | sortAlpha -}}{{- $quoted = append $quoted (. | quote) -}}{{- end -}}
[{{ $quoted | join ", " }}]
{{- end -}}

{{- /* The groups of the service accounts that only copy names of queues, as texts in CEL. */ -}}
{{- define "grove-admission.kaiGroups" -}}
{{- $namespaces := .Values.queueGuard.kaiNamespace -}}
{{- if not (kindIs "slice" $namespaces) -}}{{- $namespaces = list $namespaces -}}{{- end -}}
{{- $groups := list -}}
{{- range $namespaces | sortAlpha -}}
{{- $groups = append $groups (printf "system:serviceaccounts:%s" . | quote) -}}
{{- end -}}
{{ $groups | join ", " }}
{{- end -}}

{{- define "grove-admission.topology" -}}
{{- with .Values.config.clusterTopology -}}{{- .name | default "grove-topology" -}}{{- end -}}
{{- end -}}

{{- /* What a policy does, by the key of its webhook in `enforcement`: a list of context and key. */ -}}
{{- define "grove-admission.actions" -}}
{{- $enforcement := (index . 0).Values.config.enforcement | default dict -}}
{{- $mode := index ($enforcement.webhooks | default dict) (index . 1) | default $enforcement.mode -}}
{{- if eq ($mode | default "refuse") "warn" -}}[Warn, Audit]{{- else -}}[Deny]{{- end -}}
{{- end -}}
