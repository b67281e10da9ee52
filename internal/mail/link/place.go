package link

import "strings"

// maxLevels is the maximum number of parts of a path in a place.
const maxLevels = 4

// platform holds the parts of paths by which public platforms organise the content of their
// customers. These parts do not identify a customer.
var platform = func() map[string]bool {
	set := make(map[string]bool)
	for part := range strings.FieldsSeq(platformParts) {
		set[part] = true
	}
	return set
}()

const platformParts = " about api app apps attachments b blob bucket buckets channel chat" +
	" company content d design details document documents download downloads dp " +
	"drawings drive e embed events f fi file files folder folders" +
	" form forms in index.html index.php invite ipfs ipns itm j joinchat l meetup-join my o object objects" +
	" open p page pages " +
	"presentation preview profile public r rec redirect responsepage.aspx s scl send" +
	" share shared shares site sites spreadsheets storage store ti u uc user users" +
	" v v0 v1 v2 view viewer w watch wc web "

// tenants holds the domains of publishing platforms at which each customer has a host, such as
// "customer.substack.com". Paths there lead to the customer's pages.
var tenants = map[string]bool{
	"beehiiv.com": true, "gumroad.com": true, "livejournal.com": true, "medium.com": true, "substack.com": true,
	"tumblr.com": true, "weebly.com": true, "wordpress.com": true,
}

// isTenant reports whether a host belongs to one customer of a publishing platform.
func isTenant(host string) bool {
	name, domain, _ := strings.Cut(host, ".")
	return tenants[domain] && name != "www"
}

// Place identifies the customer of a public platform to whom the link belongs. It returns host, without a
// port, and path, up to the first part that may identify a customer, at most four parts; for example
// "forms.example.com/d/e/abcdef". If no part of the path does, the parameter id, phone or v, if there is
// one, follows. Without a path, or if the host identifies the customer, it ends in "/".
func (l *Link) Place() string {
	path, query, _ := strings.Cut(l.Path, "?")
	place := l.Host
	if isTenant(place) {
		return place + "/"
	}
	levels := 0
	for path != "" {
		var part string
		if part, path, _ = strings.Cut(path, "/"); part == "" {
			continue
		}
		place += "/" + part[:min(len(part), maxFirst)]
		if levels++; identifies(part) || levels == maxLevels {
			return place
		}
	}
	if levels == 0 {
		return place + "/"
	}
	for parameter := range strings.SplitSeq(query, "&") {
		if name, value, _ := strings.Cut(parameter, "="); (name == "id" || name == "phone" || name == "v") && value != "" {
			return place + "?" + name + "=" + value[:min(len(value), maxFirst)]
		}
	}
	return place
}

// identifies reports whether a part of a path may identify a customer.
func identifies(part string) bool {
	return !platform[strings.ToLower(part)]
}
