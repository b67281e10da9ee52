package razor

import "strings"

// Shorten cuts a host to its registered domain as the client understands
// it: one label before a public suffix of a list from around 2000. A host under
// an unknown top level is returned as it is. Source: docs/specs/razor2.md#shortening.
func Shorten(host string) string {
	dot := strings.LastIndexByte(host, '.')
	if dot < 0 {
		return host
	}
	tld := host[dot+1:]
	labels, ok := suffixes[tld]
	if !ok {
		return host
	}
	// Entries with a dot are tried before those without.
	for _, dotted := range []bool{true, false} {
		for label := range strings.FieldsSeq(labels) {
			if strings.Contains(label, ".") == dotted {
				if short, ok := behind(host, label+"."+tld); ok {
					return short
				}
			}
		}
	}
	if tld == "au" && strings.HasSuffix(host, "edu.au") {
		return "edu.au"
	}
	if tld == "kr" {
		return host
	}
	if short, ok := behind(host, tld); ok {
		return short
	}
	return host
}

// behind returns the suffix with the one label before it, if there is one.
func behind(host, suffix string) (string, bool) {
	rest, ok := strings.CutSuffix(host, "."+suffix)
	if !ok {
		return "", false
	}
	label := rest[strings.LastIndexByte(rest, '.')+1:]
	if label == "" {
		return "", false
	}
	return label + "." + suffix, true
}

// suffixes maps each top level to the labels that make a suffix with it.
// Every top level but kr is a suffix alone too.
var suffixes = map[string]string{
	"ar": "com gov int mil net",
	"au": "asn com conf csiro gov id info net org oz telememo",
	"az": "com net org",
	"br": "art com esp etc g12 gov ind inf mil net org pro psi rec tmp",
	"ca": "ab bc gc mb nf ns nt on pe qc sk yk",
	"cn": "ac ah bj com cq edu gd gov gs gx gz hb he hi hk hl hn jl js ln mo net nm nx" +
		" org qh sc sh sn sx tj tw xj xz yn zj",
	"co": "arts com edu firm gov info int mil nom org rec store web",
	"cr": "ac co ed fi go or sa",
	"cu": "com net org",
	"cy": "ac com gov net org",
	"ec": "com edu fin gov k12 med mil net org",
	"eg": "com edu eun gov net org sci",
	"fj": "ac com gov id org school",
	"fr": "site.voila",
	"ge": "com edu gov mil net org pvt",
	"gg": "ac alderney co gov guernsey ind ltd net org sark sch",
	"gu": "com edu gov mil net org",
	"hk": "com edu gov idv net org",
	"hu": "co info nui org priv tm",
	"id": "ac co go mil net or",
	"il": "ac co gov k12 muni net org",
	"im": "ac co gov net nic org",
	"in": "ac co ernet gov net nic res",
	"jo": "com edu gov net",
	"jp": "ac ad co go gr lg ne or",
	"kr": "ac co go kyonggi ne or pe re seoul",
	"la": "com net org",
	"lb": "com gov mil net org",
	"lc": "com edu gov net org",
	"lv": "asn com conf edu gov id mil net org",
	"ly": "com net org",
	"mm": "com edu gov net org",
	"mo": "com edu gov net org",
	"mt": "com net org",
	"mx": "com net org",
	"my": "com edu gov net org",
	"na": "com net org",
	"nc": "com net org",
	"ni": "com",
	"np": "com net ort",
	"nz": "ac co govt net",
	"pa": "ac com edu gob net org sld",
	"pe": "com net org",
	"ph": "com mil net ngo org",
	"pl": "com net org",
	"py": "com edu net org",
	"ru": "com net org pp",
	"sg": "com edu gov net org",
	"sh": "com edu gov mil net org",
	"sv": "co",
	"sy": "com net org",
	"th": "ac co go in net or",
	"tn": "com edunet ens fin gov ind info intl nat net org rnrt rns rnu tourism",
	"tr": "bbs com edu gov k12 mil net org",
	"tw": "com gove net org",
	"ua": "com gov net",
	"ug": "ac co go or",
	"uk": "ac co gov ltd me mod net nhs nic org plc police sch",
	"us": "sf.ca ak al ar az ca co ct dc de fed fl ga hi ia id il in isa kids ks ky la ma md me mi mn mo" +
		" ms mt nc nd ne nh nj nm nsn nv ny oh ok or pa ri sc sd tn tx ut va vt wa wi wv wy",
	"uy":   "com edu net org",
	"ve":   "arts bib co com edu firm gov info int mil net nom org rec store tec web",
	"vi":   "co net org",
	"yu":   "ac co edu org",
	"za":   "ac alt co edu gov mil net ngo nom org school tm web",
	"com":  "",
	"net":  "",
	"org":  "",
	"info": "",
	"biz":  "",
	"edu":  "",
	"cz":   "",
	"de":   "",
	"ne":   "",
	"nf":   "",
	"ng":   "",
	"ws":   "",
}
