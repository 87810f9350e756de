"""A record in which other names stand for names, so that it can be given to strangers.

The words of names are replaced wherever they stand: in what was asked, in answers and in texts. So
what a check makes of a name, it makes of the pseudonym too. Words that a check may look for stay,
also in names: those of this version's configuration, webhooks, policies and permissions, the fields
of objects, names that end in a well-known domain, and what is written like `True` or `v1`.

Certificates stay, because a changed one is signed by nobody, and so do the namespace and the
Service that ours is for.
"""

import re

from app.base.pseudonyms import WordPseudonyms, words_of
from app.config.schema import Configuration
from app.doctor.permissions import needs_of
from app.facts.kinds import ALL
from app.facts.labels import KAI_SCHEDULER
from app.webhooks.configurations import ServiceTarget, webhook_configurations
from app.webhooks.policies import admission_policies, marking_policies, queue_policies

_TEXT = r'"(?:[^"\\]|\\.)*"'
_NAMED = re.compile(
    r'("(?!shortNames|singularName)(?:[\w.]*(?:configuration|continue|dir|domain|endpoint|file|host'
    r"|identity|name|namespace|path|queue|server|startsAfter|url|user|values|yaml|zone)"
    r's?":(?=["\[])|(?:annotations|labels|matchLabels|nodeSelector|selector)":(?=\{)'
    r'|names":(?=\{"[^"]*":"")))'
    rf"({_TEXT}|\[(?:{_TEXT}|,)*\]|\{{(?:{_TEXT}|[:,])*\}})"
    r'(?!,"singularName)',
    re.IGNORECASE,
)
"""The fields that have names, each with these. `continue`, by which a list goes on, has one too."""

_PLAIN = re.compile(r'"([A-Z]\w*|v?-?\d[^\s"\\]*|[\w.-]+(?=\\?":))\\?"')
"""A field, or a value that is no name."""

_WELL_KNOWN = re.compile(
    r'"((?:[\w-]+\.)*(?:kubernetes\.io|k8s\.io|grove\.io|kai\.scheduler|run\.ai|nvidia\.com'
    r"|cert-manager\.io|cilium\.io|istio\.io|knative\.dev|kubeflow\.org|kyverno\.io|openshift\.io"
    r'|ray\.io)(?:/[\w.-]+)?)\\?"'
)
_SERVED = re.compile(r'"(?:namespace|serviceName)\\":\\"([^\\"]*)')
"""The namespace and the Service in the configuration."""

_OTHERS = (
    "cert-manager kyverno kueue dra-driver https svc system:authenticated kai-binder"
    " operator-configmap objects /apis application/json;as null trusted refused unreachable"
    " topologyAwareScheduling exemptServiceAccountUserNames reconcilerServiceAccountUserName"
)


def with_pseudonyms(record: bytes) -> bytes:
    """Return a record with pseudonyms."""
    text = record.decode()
    named = [value for _, value in _NAMED.findall(text)]
    plain = _PLAIN.findall(_NAMED.sub(r"\1", text))
    served = _SERVED.findall(text.partition('"answers":')[0])
    kept = words_of([*plain, *_WELL_KNOWN.findall(text), *served, _ours()])

    return WordPseudonyms(named, kept).of(text).encode()


def _ours() -> str:
    """Return a text with all words that a check may look for in any cluster."""
    default = Configuration()
    return repr(
        [
            Configuration.model_json_schema(),
            webhook_configurations(ServiceTarget()),
            admission_policies(default),
            marking_policies(default),
            queue_policies(default, "warn", KAI_SCHEDULER),
            needs_of(default),
            ALL,
            _OTHERS,
        ]
    )
