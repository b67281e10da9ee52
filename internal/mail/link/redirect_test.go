package link

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func domains(text string) (all []string) {
	for _, l := range All(text) {
		all = append(all, l.Domain)
	}
	return all
}

// TestRedirects: a link to elsewhere is found in the forms in which sites, gateways and
// senders hide it in another.
func TestRedirects(t *testing.T) {
	const target = "https://evil.example/x?y=1"
	once := url.QueryEscape(target)
	for name, text := range map[string]string{
		"parameter":       "https://good.example/go?a=b&url=" + once,
		"encoded twice":   "https://good.example/go?url=" + url.QueryEscape(once),
		"encoded thrice":  "https://good.example/go?url=" + url.QueryEscape(url.QueryEscape(once)),
		"base 64":         "https://good.example/go?q=" + base64.StdEncoding.EncodeToString([]byte(target)),
		"base 64 of Bing": "https://good.example/go?u=a1" + base64.RawURLEncoding.EncodeToString([]byte(target)),
		"base 64, URL":    "https://good.example/go?q=" + base64.RawURLEncoding.EncodeToString([]byte(target)),
		"base 64, encoded": "https://good.example/go?q=" +
			url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(target+"???>>>"))),
		"fragment":           "https://good.example/#" + target,
		"fragment, slash":    "https://good.example/#/" + once,
		"path":               "https://good.example/amp/" + target,
		"without a scheme":   "https://good.example/?redirect_url=evil.example.com/x",
		"an odd parameter":   "https://good.example/?anything=evil.example.com/x",
		"two slashes":        "https://good.example/?anything=//evil.example",
		"URL Defense":        "https://good.example/v2/url?u=https-3A__evil.example_x-3Fy-3D1&d=abc",
		"URL Defense, v3":    "https://good.example/v3/__" + target + "__;!!abc",
		"Safe Links":         "https://eur01.good.example/?url=" + once + "&data=05%7C01%7C",
		"AMP":                "https://good.example/amp/s/evil.example/x",
		"Google Translate":   "https://evil-example.translate.goog/x?_x_tr_sl=auto",
		"second in a second": "https://good.example/?u=" + url.QueryEscape("https://other.example/?u="+once),
	} {
		want := "evil.example"
		if name == "without a scheme" || name == "an odd parameter" {
			want = "example.com"
		}
		if got := domains(text); !slices.Contains(got, want) {
			t.Errorf("%s: %q leads to %q", name, text, got)
		}
	}
	for _, text := range []string{
		"https://good.example/?q=evil.example.com", "https://good.example/?url=readme", "https://good.example/?url=v1.2",
		"https://good.example/?u=aHR0cA", "https://good.example/?u=aHR0c!!!!",
		"https://good.example/?u=ann@example.com", "https://good.example/#top",
	} {
		if got := domains(text); !slices.Equal(got, []string{"good.example"}) {
			t.Errorf("%q leads to %q", text, got)
		}
	}
	if got := domains("http://a.example/?" + strings.Repeat("u=http://b.example/&", 99)); len(got) != maxTargets {
		t.Errorf("%d targets", len(got))
	}
}

// TestPlaces: on platforms a place names the customer.
func TestPlaces(t *testing.T) {
	for text, want := range map[string]string{
		"https://firebasestorage.googleapis.com/v0/b/" +
			"evil-bucket/o/index.html?alt=media": "firebasestorage.googleapis.com/v0/" +
			"b/evil-bucket",
		"https://storage.googleapis.com/evil-bucket/a.html":          "storage.googleapis.com/evil-bucket",
		"https://docs.google.com/forms/d/e/1FAIpQLSexample/viewform": "docs.google.com/forms/d/e/1FAIpQLSexample",
		"https://drive.google.com/file/d/1abcdefg/view":              "drive.google.com/file/d/1abcdefg",
		"https://drive.google.com/uc?id=1abcdefg":                    "drive.google.com/uc?id=1abcdefg",
		"https://drive.google.com/open?x=y&id=1abcdefg":              "drive.google.com/open?id=1abcdefg",
		"https://sites.google.com/view/evil-site/home":               "sites.google.com/view/evil-site",
		"https://forms.office.com/Pages/ResponsePage.aspx?id=DQSIkWdsW0yxEjajBLZtrQAAAAAA": "forms.office.com/Pages/" +
			"ResponsePage.aspx?id=DQSIkWdsW0yxEjajBLZtrQAAAAAA",
		"https://forms.office.com/r/AbCdEf":                           "forms.office.com/r/AbCdEf",
		"https://www.dropbox.com/scl/fi/abcdefgh/invoice.pdf?rlkey=x": "www.dropbox.com/scl/fi/abcdefgh",
		"https://ipfs.io/ipfs/bafybei/login.html":                     "ipfs.io/ipfs/bafybei",
		"https://t.me/evil":                                           "t.me/evil",
		"https://evil.substack.com/p/first-post":                      "evil.substack.com/",
		"https://evil.wordpress.com:8443/2026/11/post?id=7":           "evil.wordpress.com/",
		"https://www.medium.com/evil/post":                            "www.medium.com/evil",
		"https://medium.com/evil/post":                                "medium.com/evil",
		"https://email.mg1.substack.com/c/abc":                        "email.mg1.substack.com/c",
		"https://substack.com.shop.example/a/b":                       "substack.com.shop.example/a",
		"https://shop.example/":                                       "shop.example/",
		"https://shop.example/?id=7":                                  "shop.example/",
		"https://shop.example/a/b/c":                                  "shop.example/a",
		"https://shop.example/s/s/s/s/s/x":                            "shop.example/s/s/s/s",
		"https://api.whatsapp.com/send?text=x&phone=15550109999":      "api.whatsapp.com/send?phone=15550109999",
		"https://discord.com/invite/evil":                             "discord.com/invite/evil",
		"https://telegram.me/joinchat/evil":                           "telegram.me/joinchat/evil",
		"https://us02web.zoom.us/j/81234?pwd=x":                       "us02web.zoom.us/j/81234",
		"https://teams.microsoft.com/l/meetup-join/19%3ameeting_a/0":  "teams.microsoft.com/l/meetup-join/19%3Ameeting_a",
		"https://www.youtube.com/watch?t=1&v=abc":                     "www.youtube.com/watch?v=abc",
		"https://play.google.com/store/apps/details?id=evil":          "play.google.com/store/apps/details?id=evil",
		"https://www.linkedin.com/in/evil/":                           "www.linkedin.com/in/evil",
		"https://line.me/R/ti/p/@evil":                                "line.me/R/ti/p/@evil",
	} {
		if l, ok := Parse(text); !ok || l.Place() != want {
			t.Errorf("%s: %q, want %q", text, l.Place(), want)
		}
	}
}

// TestBareNames: a name with a path is a link, a name alone may be one, and what is like one is not.
func TestBareNames(t *testing.T) {
	for text, want := range map[string]string{
		"go to evil.com/offer now":                          "http://evil.com/offer",
		"(evil.co.uk/x).":                                   "http://evil.co.uk/x",
		"evil.example/x":                                    "", // no domain there is
		"and/or his/her 1/2 a.b/c x.y/ ":                    "",
		"evil.com and end.The next":                         "//evil.com",
		"(evil.shop), *EVIL.TOP* or evil.click:8080 today.": "//evil.shop //EVIL.TOP //evil.click",
		"evil.com:8080/x":                                   "http://evil.com:8080/x",
		"configure.ac readme.md Sign.in main.rs:12":         "", // files, and words
		"ann@evil.com co.uk example.test list.add(x)":       "",
		"readme.txt/x v1.2/3 1.2.3.4/24":                    "",
		"ann@evil.com/x":                                    "",
		"dir/evil.com/x /evil.com/x":                        "",
		"com/x .com/x":                                      "",
		"http://a.example/ evil.org/path":                   "http://a.example/ http://evil.org/path",
	} {
		var got []string
		Find([]byte(text), func(url string) bool { got = append(got, url); return true })
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
