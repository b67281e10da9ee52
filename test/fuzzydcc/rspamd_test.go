//go:build interop

package fuzzydcc

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/fuzzy"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// An rspamd is a running rspamd with the modules of its test.
type rspamd struct {
	*nodetest.Rspamd
	t *testing.T
}

// startRspamd runs rspamd without a name server.
func startRspamd(t *testing.T, filters, modules string) *rspamd {
	t.Helper()
	return startRspamdWith(t, "", filters, modules)
}

// startRspamdWith runs rspamd with a name server. Reported mail has a high score.
func startRspamdWith(t *testing.T, nameServer, filters, modules string) *rspamd {
	t.Helper()
	group := `group "fuzzy" { symbols { "FUZZY_DENIED" { weight = 12.0; } } }`
	return &rspamd{nodetest.StartRspamd(t, nameServer, filters, group+modules), t}
}

// scan returns the symbols of a message.
func (r *rspamd) scan(message string, headers ...string) map[string]nodetest.RspamdSymbol {
	r.t.Helper()
	return r.Scan(message, headers...).Symbols
}

// control sends a message to the controller, and reports whether the controller has done what path names.
func (r *rspamd) control(path, message string, headers ...string) bool {
	r.t.Helper()
	var answer struct{ Success bool }
	r.Post(r.Controller, path, message, &answer, headers...)
	return answer.Success
}

// learn adds a message to a list, or takes it away.
func (r *rspamd) learn(path, message string, flag, weight int) {
	r.t.Helper()
	if !r.control(path, message, "Flag", fmt.Sprint(flag), "Weight", fmt.Sprint(weight)) {
		r.t.Fatalf("%s to list %d fails", path, flag)
	}
}

const letter = `From: Ida <ida@garden.example>
To: reader@farm.example
Subject: %s
Date: Mon, 02 Mar 2026 09:15:00 +0000
Message-ID: <%s@garden.example>
MIME-Version: 1.0
Content-Type: text/plain; charset=utf-8

`

// gardenText has enough words for shingles.
const gardenText = "when the frost has left the beds we carry the boxes of seed potatoes out of the cellar and sort " +
	"them by hand because every spring " +
	"a few have gone soft and must not be planted with the others the children count the good ones into baskets while " +
	"their grandmother " +
	"draws straight lines across the soil with a string and two wooden pegs and by the evening the whole field is " +
	"finished and everybody " +
	"sits on the wall with bread and cheese to look at the brown earth where nothing at all can be seen yet\n"

func mail(subject, id, text string) string { return fmt.Sprintf(letter, subject, id) + text }

func fuzzyModule(port int, extra string) string {
	return fmt.Sprintf(`
fuzzy_check {
  timeout = 20s; retransmits = 1;
  rule "bulkhead" {
    algorithm = "mumhash"; servers = "127.0.0.1:%d"; %s
    symbol = "FUZZY_UNKNOWN"; max_score = 20.0; read_only = no; skip_unknown = yes;
    mime_types = ["*"]; min_bytes = 0; min_length = 32; short_text_direct_hash = yes;
    fuzzy_map = { FUZZY_DENIED { max_score = 20.0; flag = 1; } FUZZY_PROB { max_score = 10.0; flag = 2; }
      FUZZY_WHITE { max_score = 2.0; flag = 3; } }
  }
}`, port, extra)
}

func TestRspamdFuzzyCheck(t *testing.T) {
	port := nodetest.FreePort(t)
	startNode(t, fmt.Sprintf("[listen]\nfuzzy = \"127.0.0.1:%d\"\n", port))
	nodetest.AwaitTCP(t, fmt.Sprintf("127.0.0.1:%d", port))
	r := startRspamd(t, "fuzzy_check", fuzzyModule(port, ""))

	spam := mail("seed", "1", gardenText)
	near := mail("seed", "2", strings.ReplaceAll(strings.ReplaceAll(gardenText, "grandmother", "uncle"),
		"cheese", "apples"))
	short := mail("a short one", "3", "buy the green watering can today it is cheap and good for all who have a garden\n")
	other := mail("harbour", "4",
		"the harbour master keeps a book in which every boat that comes in before noon is written with its length its flag "+
			"and the name of "+
			"the person who steers it and when the book is full he takes it to the town hall where it lies beside two hundred "+
			"others that nobody reads any more\n")
	want := func(message, name string, present bool) nodetest.RspamdSymbol {
		t.Helper()
		symbols := r.scan(message)
		got, ok := symbols[name]
		if ok != present {
			t.Errorf("%s present: %v, want %v; symbols %v", name, ok, present, symbols)
		}
		return got
	}
	want(spam, "FUZZY_DENIED", false)
	r.learn("/fuzzyadd", spam, 1, 10)
	r.learn("/fuzzyadd", short, 2, 10)
	exact := want(spam, "FUZZY_DENIED", true)
	copyOf := want(near, "FUZZY_DENIED", true)
	want(short, "FUZZY_PROB", true)
	want(other, "FUZZY_DENIED", false)
	if exact.Score <= 0 || copyOf.Score <= 0 || copyOf.Score > exact.Score {
		t.Errorf("scores: exact %v, near copy %v", exact.Score, copyOf.Score)
	}
	if len(exact.Options) != 1 || !strings.HasPrefix(exact.Options[0], "1:") ||
		!strings.HasSuffix(exact.Options[0], ":1.00:txt") {
		t.Errorf("options of the exact hit: %q", exact.Options)
	}
	r.learn("/fuzzyadd", spam, 1, 10)
	if twice := want(spam, "FUZZY_DENIED", true); twice.Score <= exact.Score {
		t.Errorf("score %v after a second learning, %v after the first", twice.Score, exact.Score)
	}
	r.learn("/fuzzydel", spam, 1, 0)
	want(spam, "FUZZY_DENIED", false)
	want(near, "FUZZY_DENIED", false)
	r.learn("/fuzzyadd", spam, 3, 2)
	want(spam, "FUZZY_WHITE", true)
}

// twice is a mail whose HTML has other last words than its plain text: two digests,
// and the same shingles.
func twice(id, text string) string {
	return "From: Ida <ida@garden.example>\nTo: reader@farm.example\nSubject: seed\n" +
		"Date: Mon, 02 Mar 2026 09:15:00 +0000\n" +
		"Message-ID: <" + id + "@garden.example>\nMIME-Version: 1.0\nContent-Type: multipart/alternative; boundary=b\n\n" +
		"--b\nContent-Type: text/plain; charset=utf-8\n\n" + text +
		"\n--b\nContent-Type: text/html; charset=utf-8\n\n<html><body><p>" + text + " always</p></body></html>\n--b--\n"
}

// TestRspamdNearScore: a near copy scores no more than the mail itself, also where
// the text of that was learnt twice, and is no exact match.
func TestRspamdNearScore(t *testing.T) {
	port := nodetest.FreePort(t)
	startNode(t, fmt.Sprintf("[listen]\nfuzzy = \"127.0.0.1:%d\"\n", port))
	nodetest.AwaitTCP(t, fmt.Sprintf("127.0.0.1:%d", port))
	r := startRspamd(t, "fuzzy_check", fuzzyModule(port, ""))
	r.learn("/fuzzyadd", twice("1", gardenText), 1, 10)
	near := strings.ReplaceAll(strings.ReplaceAll(gardenText, "grandmother", "uncle"), "cheese", "apples")
	exact, copied := r.scan(twice("1", gardenText))["FUZZY_DENIED"], r.scan(twice("2", near))["FUZZY_DENIED"]
	if len(exact.Options) != 2 || len(copied.Options) == 0 {
		t.Fatalf("the mail: %q, a near copy: %q", exact.Options, copied.Options)
	}
	if exact.Score < 0.8*12 || copied.Score <= 0 || copied.Score > exact.Score {
		t.Errorf("the mail scores %v, a near copy %v", exact.Score, copied.Score)
	}
	for _, option := range copied.Options {
		if strings.Contains(option, ":1.00:") {
			t.Errorf("a near copy is an exact match: %q", option)
		}
	}
}

// TestRspamdFuzzyEncrypted: the same under a key pair, plain requests refused.
func TestRspamdFuzzyEncrypted(t *testing.T) {
	pair, err := fuzzy.NewKeyPair(nil)
	if err != nil {
		t.Fatal(err)
	}
	port := nodetest.FreePort(t)
	startNode(t, fmt.Sprintf("[listen]\nfuzzy = \"127.0.0.1:%d\"\n[fuzzy]\nencrypted_only = true\nupdate_from = []\n"+
		"[[fuzzy.keys]]\nsecret = %q\nname = \"rspamd\"\nupdate = true\n", port, fuzzy.EncodeBase32(pair.Secret[:])))
	nodetest.AwaitTCP(t, fmt.Sprintf("127.0.0.1:%d", port))
	r := startRspamd(t, "fuzzy_check", fuzzyModule(port,
		fmt.Sprintf("encryption_key = %q;", fuzzy.EncodeBase32(pair.Public[:]))))
	spam := mail("seed", "1", gardenText)
	r.learn("/fuzzyadd", spam, 1, 10)
	if symbols := r.scan(spam); symbols["FUZZY_DENIED"].Score <= 0 {
		t.Errorf("symbols after an encrypted learning: %v", symbols)
	}
	plain := startRspamd(t, "fuzzy_check", fuzzyModule(port, ""))
	if symbols := plain.scan(spam); symbols["FUZZY_DENIED"].Score != 0 ||
		symbols["FUZZY_BLOCKED"].Options == nil && symbols["FUZZY_ENCRYPTION_REQUIRED"].Options == nil {
		t.Errorf("symbols of a plain check: %v", symbols)
	}
}

// TestRspamdFirstReport: the first mail that rspamc gives to a new rspamd for learning is found, each time.
func TestRspamdFirstReport(t *testing.T) {
	port := nodetest.FreePort(t)
	startNode(t, fmt.Sprintf("[listen]\nfuzzy = \"127.0.0.1:%d\"\n", port))
	nodetest.AwaitTCP(t, fmt.Sprintf("127.0.0.1:%d", port))
	for i := range 3 {
		r := startRspamd(t, "fuzzy_check", fuzzyModule(port, ""))
		spam := mail("seed", fmt.Sprint(i), strings.ReplaceAll(gardenText, "e", fmt.Sprintf("e%d", i)))
		rspamc := func(port int, args ...string) string {
			t.Helper()
			code, out := nodetest.Command(t, spam, "env", append([]string{"HOME=" + t.TempDir(), "rspamc", "-t", "100", "-h",
				fmt.Sprintf("127.0.0.1:%d", port)}, args...)...)
			if code != 0 {
				t.Errorf("rspamc %q: exit %d\n%s", args, code, out)
			}
			return out
		}
		rspamc(r.Controller, "-f", "1", "-w", "10", "fuzzy_add")
		if out := rspamc(r.Worker, "symbols"); !strings.Contains(out, "FUZZY_DENIED") {
			t.Errorf("mail that was learnt is not found:\n%s", out)
		}
	}
}
