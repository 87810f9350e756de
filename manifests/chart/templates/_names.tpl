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
{{ toYaml .Values.config }}
{{- end -}}

{{- /* A changed configuration has another name, so that the replicas are replaced one by one. */ -}}
{{- define "grove-admission.configuration" -}}
grove-admission-configuration-{{ include "grove-admission.config" . | sha256sum | trunc 10 }}
{{- end -}}
