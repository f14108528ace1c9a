"""Texts that a model may write to run, load, restyle, hide or break something on a page that shows them.

Every payload that could act carries the word `MARK`: as the name of a variable that it sets, of an attribute or element
that it makes, or in an address that it asks for.
"""

MARK = "hacked"
RUN = f"window.{MARK}=1"
HOST = f"http://127.0.0.1:9/{MARK}"

_SCRIPTS = [
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f'<script type=application/json id=page-settings>{{"{MARK}":1}}</script>',
    f"<!--<script>{RUN}</script>",
    f"--><script>{RUN}</script><!--",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'>",
]
_EVENTS = [
    f"<img src=x onerror={RUN}>",
    f"<svg/onload={RUN}>",
    f"<details open ontoggle={RUN}>x</details>",
    f"<iframe onload={RUN}></iframe>",
]
_BREAKS = [
    f'"><img src=x onerror={RUN}>',
    f'" onmouseover={RUN} {MARK}="',
    f"</bdi><script>{RUN}</script>",
    f"</title><script>{RUN}</script>",
    f"</main></body></html><script>{RUN}</script>",
    "{{ 7*7 }} {% raw %} {# x #} {{ ''.__class__.__mro__ }}",
    "${7*7} #{7*7} <%= 7*7 %> {{constructor.constructor('window.hacked=1')()}}",
]
_ADDRESSES = [
    f"<a href='javascript:{RUN}'>x</a>",
    f"<a href=' &#106;avascript:{RUN}'>x</a>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f"<base href='{HOST}/'>",
    f"<meta http-equiv=refresh content='0;url={HOST}'>",
    f"data:image/svg+xml,<svg onload={RUN}>",
]
_STYLES = [f"<style>@import '{HOST}.css'; body{{display:none}}</style>", f"<p style='background:url({HOST})'>x</p>"]
_FOREIGN = [
    f"<svg><a xlink:href='javascript:{RUN}'><text y=9>x</text></a></svg>",
    f"<svg><foreignObject><iframe srcdoc='<script>parent.{RUN}</script>'></foreignObject></svg>",
    f"$\\href{{javascript:{RUN}}}{{x}}$ $\\url{{javascript:{RUN}}}$",
    f"$\\text{{<img src=x onerror={RUN}>}}$",
]
# Harmless as first parsed, markup when what a parser wrote is parsed again.
_MUTATIONS = [
    f'<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror={RUN}&gt;">',
    f'<svg></p><style><a id="</style><img src=1 onerror={RUN}>">',
]
_ENTITIES = [f"&lt;script&gt;{RUN}&lt;/script&gt;", f"\\u003cscript\\u003e{RUN}\\u003c/script\\u003e"]
_SIGNS = [
    f"\u2028{RUN}\u2029//", f'","{MARK}":1,"x":"', f'\\"}};{RUN};//', f"\x00<script>{RUN}</script>\x00",
    f"\ud800<img src=x onerror={RUN}>\udfff", "\u202egpj.exe\u202c \u2066x\u2069 \u200f\u061c",
    "e" + "\u0301" * 400, f"\x1b]8;;{HOST}\x07x\x1b]8;;\x07", "a" * 40_000, "\r\n\x0b\x0c\x85 \t",
]  # fmt: skip

PAYLOADS = (*_SCRIPTS, *_EVENTS, *_BREAKS, *_ADDRESSES, *_STYLES, *_FOREIGN, *_MUTATIONS, *_ENTITIES, *_SIGNS)
