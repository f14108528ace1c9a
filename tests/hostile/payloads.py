"""Texts that a model may write to run, load, restyle, hide or break something on a page that shows them.

Every payload that could act carries the word `MARK`: as the name of a variable that it sets, of an attribute or element
that it makes, or in an address that it asks for.
"""

MARK = "hacked"
RUN = f"window.{MARK}=1"
HOST = f"http://127.0.0.1:9/{MARK}"

_SCRIPTS = [
    f"<script>{RUN}</script>",
    f"<SCRIPT>{RUN}</SCRIPT>",
    f"<script src={HOST}.js></script>",
    f"<script/{MARK}>{RUN}</script/x>",
    f"</script><script>{RUN}</script>",
    f"</ScRiPt\t><script>{RUN}//",
    f"<script type=module>{RUN}</script>",
    f'<script type=application/json id=page-settings>{{"{MARK}":1}}</script>',
    f"<scr<script>ipt>{RUN}</scr</script>ipt>",
    f"<!--<script>{RUN}</script>",
    f"--><script>{RUN}</script><!--",
    f"--!><script>{RUN}</script>",
    f"<![CDATA[<script>{RUN}</script>]]>",
    f"]]><script>{RUN}</script>",
    f"<?xml-stylesheet href='javascript:{RUN}'?>",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'>",
]
_EVENTS = [
    f"<img src=x onerror={RUN}>",
    f"<img src=x onerror='{RUN}'//",
    f"<svg onload={RUN}>",
    f"<svg/onload={RUN}>",
    f"<body onload={RUN}>",
    f"<details open ontoggle={RUN}>x</details>",
    f"<input autofocus onfocus={RUN}>",
    f"<video><source onerror={RUN}></video>",
    f"<audio src=x onerror={RUN}>",
    f"<marquee onstart={RUN}>x</marquee>",
    f"<iframe onload={RUN}></iframe>",
    f"<div onpointerrawupdate={RUN} style='position:fixed;inset:0'>",
    f"<p {MARK} onclick={RUN} tabindex=0>x</p>",
    f"<x onanimationend={RUN} style='animation:x 1s'>",
    f"<select autofocus onfocus={RUN}>",
]
_BREAKS = [
    f'"><img src=x onerror={RUN}>',
    f"'><img src=x onerror={RUN}>",
    f'" onmouseover={RUN} {MARK}="',
    f"' {MARK}='",
    f"` onload={RUN} `",
    f"</bdi><script>{RUN}</script>",
    f"</pre></details></section><img src=x onerror={RUN}>",
    f"</title><script>{RUN}</script>",
    f"</style><script>{RUN}</script>",
    f"</textarea><img src=x onerror={RUN}>",
    f"</template><img src=x onerror={RUN}>",
    f"</main></body></html><script>{RUN}</script>",
    "{{ 7*7 }} {% raw %} {# x #} {{ ''.__class__.__mro__ }}",
    "${7*7} #{7*7} <%= 7*7 %> {{constructor.constructor('window.hacked=1')()}}",
]
_ADDRESSES = [
    f"<a href='javascript:{RUN}'>x</a>",
    f"<a href='java\tscript:{RUN}'>x</a>",
    f"<a href=' &#106;avascript:{RUN}'>x</a>",
    f"[x](javascript:{RUN})",
    f"![x]({HOST}.png)",
    f"<iframe src='javascript:parent.{RUN}'></iframe>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f"<object data='data:text/html,<script>parent.{RUN}</script>'></object>",
    f"<embed src='{HOST}.swf'>",
    f"<base href='{HOST}/'>",
    f"<link rel=stylesheet href={HOST}.css>",
    f"<meta http-equiv=refresh content='0;url={HOST}'>",
    f"<form action={HOST}><button autofocus>x</button></form>",
    f"<img src={HOST}.png>",
    f"<img srcset='{HOST}.png 2x'>",
    f"<portal src={HOST}></portal>",
    f"data:text/html,<script>{RUN}</script>",
    f"data:image/svg+xml,<svg onload={RUN}>",
]
_STYLES = [
    f"<style>@import '{HOST}.css'; body{{display:none}}</style>",
    f"<p style='background:url({HOST})'>x</p>",
    "<p style='position:fixed;inset:0;z-index:9999'>x</p>",
    f"<link rel=prefetch href={HOST}>",
    f"expression({RUN})",
    f"</style><style>*{{background:url({HOST})}}</style>",
]
_FOREIGN = [
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><a xlink:href='javascript:{RUN}'><text y=9>x</text></a></svg>",
    f"<svg><use href='{HOST}.svg#x'/></svg>",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s>",
    f"<svg><foreignObject><iframe srcdoc='<script>parent.{RUN}</script>'></foreignObject></svg>",
    f"<svg><set attributeName=onmouseover to={RUN}>",
    f"<math href='javascript:{RUN}'>x</math>",
    f"<math><maction actiontype='statusline#{HOST}'>x</maction></math>",
    f"<math><annotation-xml encoding='text/html'><script>{RUN}</script></annotation-xml></math>",
    f"$\\href{{javascript:{RUN}}}{{x}}$ $\\url{{javascript:{RUN}}}$",
    f"$\\includegraphics{{{HOST}.png}}$ $\\htmlId{{{MARK}}}{{x}}$",
    f"$\\text{{<img src=x onerror={RUN}>}}$",
]
# Harmless as first parsed, markup when what a parser wrote is parsed again.
_MUTATIONS = [
    f'<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror={RUN}&gt;">',
    f'<svg></p><style><a id="</style><img src=1 onerror={RUN}>">',
    f"<form><math><mtext></form><form><mglyph><style></math><img src onerror={RUN}>",
    f"<noscript><style></noscript><img src=x onerror={RUN}>",
    f"<table><td><select><img src=x onerror={RUN}>",
    f"<p id=`x` title='``onload={RUN}'>",
    f"<listing>&lt;img src=x onerror={RUN}&gt;</listing>",
    f'<xmp><p title="</xmp><svg/onload={RUN}>">',
    f"<plaintext><img src=x onerror={RUN}>",
]
_ENTITIES = [
    f"&lt;script&gt;{RUN}&lt;/script&gt;",
    f"&#60;img src=x onerror={RUN}&#62;",
    f"&#x3c;svg onload={RUN}&#x3e;",
    f"&amp;lt;script&amp;gt;{RUN}",
    f"&lt&#x69;mg src=x onerror={RUN}&gt",
    f"\\u003cscript\\u003e{RUN}\\u003c/script\\u003e",
    f"%3Cscript%3E{RUN}%3C/script%3E",
    f"+ADw-script+AD4-{RUN}+ADw-/script+AD4-",
]
_SIGNS = [
    f"\u2028{RUN}\u2029//",
    f'","{MARK}":1,"x":"',
    f'\\"}};{RUN};//',
    "'\"`<>&\\/",
    f"\x00<script>{RUN}</script>\x00",
    f"<\x00script>{RUN}</script>",
    f"\ufeff<script>{RUN}</script>",
    f"\ud800<img src=x onerror={RUN}>\udfff",
    "\u202egpj.exe\u202c \u2066x\u2069 \u200f\u061c",
    "\u200b\u200d\ufe0f\U000e0041",
    "e" + "\u0301" * 400,
    f"\uff1cscript\uff1e{RUN}\uff1c/script\uff1e",
    f"\x1b]8;;{HOST}\x07x\x1b]8;;\x07",
    "a" * 40_000,
    ("<b>" * 5_000),
    "\r\n\x0b\x0c\x85 \t",
]

PAYLOADS = (*_SCRIPTS, *_EVENTS, *_BREAKS, *_ADDRESSES, *_STYLES, *_FOREIGN, *_MUTATIONS, *_ENTITIES, *_SIGNS)
