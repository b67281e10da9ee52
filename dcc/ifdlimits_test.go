package dcc

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

func whitelistOf(t *testing.T, text string) *Whitelist {
	t.Helper()
	w, err := ReadWhitelist(nil, "test", strings.NewReader(text), false)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestIfdCounters: each message is counted by its outcome.
func TestIfdCounters(t *testing.T) {
	type stats struct{ messages, reported, queried, spam, white, rejected, greylisted, temporary, bulk, broken int64 }
	crowded := door.NewMemory(100)
	others := crowded.Hold()
	if err := others.Take(t.Context(), 100, 0); err != nil {
		t.Fatal(err)
	}
	const envelope = "\n192.0.2.7\nhelo\nalice@example.org\nbob\n\n"
	for _, tt := range []struct {
		name, request string
		set           func(*Ifd)
		want          stats
	}{
		{"counted", "header" + envelope, nil, stats{messages: 1, reported: 1}},
		{"asked", "header query" + envelope, nil, stats{messages: 1, queried: 1}},
		{"spam", "header spam" + envelope, nil, stats{messages: 1, reported: 1, spam: 1, bulk: 1, rejected: 1}},
		{"white", "header" + envelope, func(s *Ifd) {
			s.White = func() *Whitelist { return whitelistOf(t, "ok env_From alice@example.org\n") }
		}, stats{messages: 1, white: 1}},
		{"cleared", "header" + envelope, func(s *Ifd) {
			s.Cleared = func(context.Context, []byte, string, netip.Addr, bool) (bool, error) { return true, nil }
		}, stats{messages: 1, white: 1}},
		{"at the threshold", "header" + envelope, func(s *Ifd) {
			s.Thresholds = map[digests.Type]uint32{digests.TypeBody: 1}
		}, stats{messages: 1, reported: 1, bulk: 1, rejected: 1}},
		{"greylisted", "header" + envelope, func(s *Ifd) {
			s.Grey = new(Greylist)
		}, stats{messages: 1, reported: 1, greylisted: 1}},
		{"broken option", "colour" + envelope, nil, stats{broken: 1}},
		{"too long", "header" + envelope, func(s *Ifd) { s.MaxMessage = 100 }, stats{messages: 1, temporary: 1}},
		{"too much at once", "header" + envelope, func(s *Ifd) {
			s.Memory, s.Timeout = crowded, 2*time.Millisecond
		}, stats{messages: 1, temporary: 1}},
		{"node with a fault", "header query" + envelope, func(s *Ifd) {
			s.Clearinghouse = &prototest.House{Err: prototest.ErrFault}
		}, stats{messages: 1, queried: 1, temporary: 1}},
	} {
		s := &Ifd{Clearinghouse: new(prototest.House)}
		if tt.set != nil {
			tt.set(s)
		}
		serveIfd(t, s)(tt.request + ifdMessage)
		st := &s.Stats
		got := stats{
			st.Messages.Load(), st.Reported.Load(), st.Queried.Load(), st.Spam.Load(), st.White.Load(),
			st.Rejected.Load(), st.Greylisted.Load(), st.Temporary.Load(), st.Bulk.Load(), st.Broken.Load(),
		}
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestIfdHost: headers name the machine, by the first label of its name.
func TestIfdHost(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	name, _, _ = strings.Cut(name, ".")
	s := &Ifd{Clearinghouse: new(prototest.House)}
	if err := s.prepare(); err != nil {
		t.Fatal(err)
	}
	got := string(s.answer(t.Context(), &ifdRequest{options: ifdOptions{header: true},
		recipients: []ifdRecipient{{address: "a"}}}, []byte(ifdMessage), bulkhead.Reporter{}))
	if want := fmt.Sprintf("A\nA\nX-DCC-%s-Metrics: %s %d;", DefaultBrand, name, DefaultServerID); !strings.HasPrefix(got,
		want) {
		t.Errorf("reply %q, want %q at its head", got, want)
	}
}

// TestIfdEnvelope: the envelope is read within its limits, and not beyond.
func TestIfdEnvelope(t *testing.T) {
	for _, tt := range []struct {
		name, request string
		taken         int // recipients that are answered, -1 for a request that is refused
	}{
		{"one recipient", "header\n192.0.2.7\nhelo\nsender\nbob\n\n", 1},
		{"as many as there may be", "header\n192.0.2.7\nhelo\nsender\n" + strings.Repeat("b\n", 2000) + "\n", 2000},
		{"one more", "header\n192.0.2.7\nhelo\nsender\n" + strings.Repeat("b\n", 2001) + "\n", -1},
		{"longest line", "header\n192.0.2.7\n" + strings.Repeat("x", 4095) + "\nsender\nbob\n\n", 1},
		{"longer line", "header\n192.0.2.7\n" + strings.Repeat("x", 4096) + "\nsender\nbob\n\n", -1},
		{"line without end", "header\n192.0.2.7\n" + strings.Repeat("x", 9000), -1},
		{"IPv6", "header\n2001:db8::7\nhelo\nsender\nbob\n\n", 1},
		{"IPv6 of an interface", "header\nfe80::1%eth0\nhelo\nsender\nbob\n\n", 1},
		{"blanks around the address", "header\n 192.0.2.7 \nhelo\nsender\nbob\n\n", 1},
		{"every option", "header cksums spam query log grey-off no-grey grey-query no-reject rcvd-next rcvd-nxt\n" +
			"192.0.2.7\nhelo\nsender\nbob\n\n", 1},
	} {
		ask := serveIfd(t, &Ifd{Clearinghouse: new(prototest.House)})
		got := ask(tt.request + ifdMessage)
		if tt.taken < 0 && got != "" || tt.taken >= 0 && !strings.HasPrefix(got, "A\n"+strings.Repeat("A", tt.taken)+"\n") {
			t.Errorf("%s: reply %.60q, want %d letters", tt.name, got, tt.taken)
		}
	}
}

// clientOf returns the checksum of the client as the table of a reply shows it.
func clientOf(reply string) string {
	m := regexp.MustCompile(`(?m)^ +IP: ([0-9a-f ]{35})`).FindStringSubmatch(reply)
	if m == nil {
		return ""
	}
	return strings.ReplaceAll(m[1], " ", "")
}

// TestIfdReceived: the client is found in the Received headers, behind our own relays.
func TestIfdReceived(t *testing.T) {
	const from = "Received: from x ([192.0.2.1]) by mx.example.net\n"
	chain := func(n int) (all string) { // 192.0.2.1 is the topmost
		for i := range n {
			all += fmt.Sprintf("Received: from x ([192.0.2.%d]) by mx.example.net\n", i+1)
		}
		return all
	}
	skip := func(n int) string { return "cksums" + strings.Repeat(" rcvd-next", n) }
	for _, tt := range []struct{ name, list, options, client, head, want string }{
		{"given", "", "cksums", "203.0.113.1", from, "203.0.113.1"},
		{"found", "", "cksums", "", from, "192.0.2.1"},
		{"the topmost", "", "cksums", "", chain(3), "192.0.2.1"},
		{"skipped", "", skip(1), "", chain(3), "192.0.2.2"},
		{"skipped from one that was given", "", skip(1), "203.0.113.1", chain(3), "192.0.2.1"},
		{"skipped beyond the last", "", skip(5), "", chain(3), "192.0.2.3"},
		{"skipped to the last that is read", "", skip(70), "", chain(70), "192.0.2.64"},
		{"folded by a tab", "", "cksums", "", "Received: from x\n\t([192.0.2.1])\n by mx.example.net\n", "192.0.2.1"},
		{"folded by a blank", "", "cksums", "", "Received: from x\n ([192.0.2.1])\n\tby mx.example.net\n", "192.0.2.1"},
		{"in any case", "", "cksums", "", "RECEIVED : FROM x ([192.0.2.1]) by y\n", "192.0.2.1"},
		{"IPv6", "", "cksums", "", "Received: from x ([ipv6:2001:db8::1]) by y\n", "2001:db8::1"},
		{"IPv6 of an interface", "", "cksums", "", "Received: from x ([fe80::1%eth0]) by y\n", "fe80::1"},
		{"IPv4 in IPv6", "", "cksums", "", "Received: from x ([IPv6:::ffff:192.0.2.9]) by y\n", "192.0.2.9"},
		{"second brackets", "", "cksums", "", "Received: from [x] ([192.0.2.1]) by y\n", "192.0.2.1"},
		{"HELO with an address", "", "cksums", "", "Received: from [192.0.2.9] (unknown [192.0.2.1]) by y\n", "192.0.2.1"},
		{"HELO behind the address", "", "cksums", "", "Received: from [192.0.2.1] (helo=[192.0.2.9]) by y\n", "192.0.2.1"},
		{"HELO beside the address", "", "cksums", "", "Received: from x ([192.0.2.1] helo=[192.0.2.9]) by y\n", "192.0.2.1"},
		{"HELO alone", "", "cksums", "", "Received: from x (HELO [192.0.2.9]) (192.0.2.1) by y\n", ""},
		{"no HELO", "", "cksums", "", "Received: from [192.0.2.1] by y\n", "192.0.2.1"},
		{"HELO of a relay", "mx ip 192.0.2.9\n", "cksums", "",
			"Received: from [192.0.2.9] (unknown [203.0.113.5]) by y\n" + chain(3), "203.0.113.5"},
		{"only after by", "", "cksums", "", "Received: from x by y ([192.0.2.1])\n", ""},
		{"brackets before and after by", "", "cksums", "", "Received: from [x] by y ([192.0.2.1])\n", ""},
		{"not closed", "", "cksums", "", "Received: from x ([192.0.2.1 by y\n", ""},
		{"no from", "", "cksums", "", "Received: by y ([192.0.2.1])\n", ""},
		{"from nobody", "", "cksums", "", "Received: from\n", ""},
		{"another header", "", "cksums", "", "X-Received: from x ([192.0.2.1]) by y\n", ""},
		{"passed over one without an address", "", "cksums", "", "Received: by local\n" + from, "192.0.2.1"},
		{"behind relays", "mx ip 192.0.2.0/29\n", "cksums", "192.0.2.1", chain(9), "192.0.2.8"},
		{"no further than the last", "mx ip 192.0.2.0/24\n", "cksums", "192.0.2.100", chain(3), "192.0.2.3"},
		{"behind ten relays", "mx ip 192.0.2.0/24\n", "cksums", "192.0.2.100", chain(20), "192.0.2.10"},
		{"our own user", "mx ip 192.0.2.1\nsubmit ip 192.0.2.2\n", "cksums", "192.0.2.1",
			"Received: from x ([192.0.2.2]) by y\n" + from, "192.0.2.2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list := whitelistOf(t, tt.list)
			s := &Ifd{Clearinghouse: new(prototest.House), White: func() *Whitelist { return list }}
			got := clientOf(serveIfd(t, s)(tt.options + "\n" + tt.client + "\n\n\nbob\n\n" + tt.head +
				"From: alice@example.org\n\nThe ferry leaves at nine on every day of the week.\n"))
			want := ""
			if tt.want != "" {
				want = fmt.Sprintf("%x", digests.IPSum(netip.MustParseAddr(tt.want)))
			}
			if got != want {
				t.Errorf("client with the sum %q, want that of %q: %q", got, tt.want, want)
			}
		})
	}
	// Only the header is searched, and a message may consist of a header alone.
	for _, tt := range []struct{ message, want string }{
		{"From: alice@example.org\n\n" + from, ""}, {strings.TrimSuffix(from, "\n"), "192.0.2.1"}, {"\n" + from, ""},
		{"From: a\r\n" + strings.ReplaceAll(from, "\n", "\r\n") + "\r\nx", "192.0.2.1"},
	} {
		got := receivedOf([]byte(tt.message))
		switch {
		case tt.want == "" && len(got) == 0:
		case len(got) != 1 || got[0].addr.String() != tt.want || got[0].helo != "x":
			t.Errorf("%q: %v, want %q", tt.message, got, tt.want)
		}
	}
}

// TestIfdRelayThatReported: a message from a relay that has reported it already is looked up and
// not counted, whatever the request and the lists state.
func TestIfdRelayThatReported(t *testing.T) {
	list := whitelistOf(t, "mxdcc ip 192.0.2.7\n")
	s := &Ifd{Clearinghouse: new(prototest.House), Brand: "b", White: func() *Whitelist { return list }}
	ask := serveIfd(t, s)
	for _, options := range []string{"header", "header spam"} {
		if got, want := ask(ifdRequestText(options, "bob")), "A\nA\nX-DCC-b-Metrics: vm 101; Body=0 Fuz1=0\n\n"; got != want {
			t.Errorf("%s: reply %q, want %q", options, got, want)
		}
	}
	if got := s.Stats.Reported.Load(); got != 0 {
		t.Errorf("%d messages reported, want none", got)
	}
}

// TestIfdCleared: the node's own white list precedes all others. The slow look-up by signatures
// happens only if it matters.
func TestIfdCleared(t *testing.T) {
	type question struct {
		sender, client string
		signatures     bool
	}
	white := "A\nAA\nX-DCC--Metrics: vm; whitelist\n\n"
	named, unnamed := question{"alice@example.org", "192.0.2.7", false}, question{"alice@example.org", "", false}
	long := named
	long.signatures = true
	for _, tt := range []struct {
		name, options, client string
		clears                func(question) bool
		threshold, counted    uint32 // counts before the message
		want                  string
		asked                 []question
		left                  uint32 // count after the message
	}{
		{"cleared", "header", "192.0.2.7", func(question) bool { return true }, 0, 0, white, []question{named}, 0},
		{"cleared, by the sender alone", "header", "", func(question) bool {
			return true
		}, 0, 0, white, []question{unnamed}, 0},
		{"spam that is cleared", "header spam", "192.0.2.7", func(question) bool {
			return true
		}, 0, 0, white, []question{long}, 0},
		{"not cleared", "header", "192.0.2.7", func(question) bool {
			return false
		}, 0, 0, "A\nAA\nX-DCC-b-Metrics: vm 101; Body=2 Fuz1=2\n\n", []question{named}, 2},
		{"not cleared, below the threshold", "header", "192.0.2.7", func(q question) bool {
			return q.signatures
		}, 6, 3, "A\nAA\nX-DCC-b-Metrics: vm 101; Body=5 Fuz1=5\n\n", []question{named}, 5},
		{"not cleared, at the threshold", "header", "192.0.2.7", func(question) bool {
			return false
		}, 5, 3, "R\nRR\nX-DCC-b-Metrics: vm 101; bulk Body=5 Fuz1=5\n\n", []question{named, long}, 5},
		{"cleared by its signatures, at the threshold", "header", "192.0.2.7", func(q question) bool {
			return q.signatures
		}, 5, 3, white, []question{named, long}, 5},
		{"cleared by its signatures, many", "header", "192.0.2.7", func(q question) bool {
			return q.signatures
		}, 0, Many - 2, white, []question{named, long}, Many},
		{"spam that is not cleared", "header spam", "192.0.2.7", func(question) bool {
			return false
		}, 0, 0, "R\nRR\nX-DCC-b-Metrics: vm 101; bulk Body=many Fuz1=many\n\n", []question{long, long}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			house := prototest.NewTally(2)
			var asked []question
			s := &Ifd{Clearinghouse: house, Brand: "b", Cleared: func(_ context.Context, message []byte, sender string,
				client netip.Addr, signatures bool) (bool, error) {
				q := question{sender, "", signatures}
				if client.IsValid() {
					q.client = client.String()
				}
				if string(message) != ifdMessage {
					t.Errorf("asked of %q", message)
				}
				asked = append(asked, q)
				return tt.clears(q), nil
			}}
			if tt.threshold > 0 {
				s.Thresholds = map[digests.Type]uint32{digests.TypeBody: tt.threshold}
			}
			sums, err := digests.Sums(t.Context(), []byte(ifdMessage), digests.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var body bulkhead.Signature
			for _, sum := range sums {
				if sum.Type != digests.TypeBody && sum.Type != digests.TypeFuz1 {
					continue
				}
				sig := signatureOf(&Checksum{sum.Type, sum.Sum})
				if tt.counted > 0 {
					house.Add(sig, tt.counted)
				}
				if sum.Type == digests.TypeBody {
					body = sig
				}
			}
			if got := serveIfd(t, s)(tt.options + "\n" + tt.client + "\nhelo\nalice@example.org\nbob\ncarol\n\n" +
				ifdMessage); got != tt.want {
				t.Errorf("reply %q, want %q", got, tt.want)
			}
			if fmt.Sprint(asked) != fmt.Sprint(tt.asked) {
				t.Errorf("asked %v, want %v", asked, tt.asked)
			}
			if got := house.Sightings(body); got != tt.left {
				t.Errorf("counted %d, want %d", got, tt.left)
			}
		})
	}
}

// TestIfdTold: a message that the caller calls spam is refused for all recipients that have not
// switched DCC off.
func TestIfdTold(t *testing.T) {
	lists := map[string]*Whitelist{
		"off": whitelistOf(t, "option dcc-off\n"), "on": whitelistOf(t, "option dcc-off\noption dcc-on\n"),
		"white": whitelistOf(t, "ok env_From alice@example.org\n"), "high": whitelistOf(t, "option threshold CMN,never\n"),
		"numbered": whitelistOf(t, "5 env_From alice@example.org\n"),
	}
	const spam = "X-DCC-b-Metrics: vm 101; bulk Body=many Fuz1=many\n\n"
	for _, tt := range []struct{ recipients, want string }{
		{"x\roff", "A\nA\nX-DCC-b-Metrics: vm 101; bulk Body=0 Fuz1=0\n\n"},
		{"x\roff\ny\ron", "A\nAR\n" + spam}, {"x\rwhite\ny", "A\nAR\n" + spam}, {"x\rhigh", "R\nR\n" + spam},
		{"x\rnumbered", "R\nR\n" + spam},
	} {
		s := &Ifd{Clearinghouse: new(prototest.House), Brand: "b", UserWhite: func(user string) *Whitelist {
			return lists[user]
		}}
		if got := serveIfd(t, s)("header spam\n192.0.2.7\nhelo\nalice@example.org\n" + tt.recipients +
			"\n\n" + ifdMessage); got != tt.want {
			t.Errorf("to %q: reply %q, want %q", tt.recipients, got, tt.want)
		}
	}
}

// TestIfdOwnListSilent: the common list also applies if the user's list has no entry for the
// message, or only one "ok2", which is half.
func TestIfdOwnListSilent(t *testing.T) {
	for _, tt := range []struct{ common, own, want string }{
		{"many env_From alice@example.org\n", "ok env_From bob@example.org\n", "R\nR\n"},
		{"many env_From alice@example.org\n", "ok2 env_From alice@example.org\n", "R\nR\n"},
		{"ok env_From alice@example.org\n", "ok2 env_From alice@example.org\n", "A\nA\n"},
		{"ok env_From alice@example.org\n", "many env_From alice@example.org\n", "R\nR\n"},
		{"many env_From alice@example.org\n", "ok2 env_From alice@example.org\nok2 message-id 1@example.org\n", "A\nA\n"},
		{"many env_From alice@example.org\n", "ok2 env_From alice@example.org\nok2 env_To bob\n", "A\nA\n"},
		{"many env_From alice@example.org\nok message-id 1@example.org\n", "", "A\nA\n"},
	} {
		common, own := whitelistOf(t, tt.common), whitelistOf(t, tt.own)
		s := &Ifd{Clearinghouse: new(prototest.House), White: func() *Whitelist {
			return common
		}, UserWhite: func(string) *Whitelist { return own }}
		if got := serveIfd(t, s)("\n192.0.2.7\nhelo\nalice@example.org\nbob\rbob\n\n" + ifdMessage); got != tt.want {
			t.Errorf("common %q, own %q: reply %q, want %q", tt.common, tt.own, got, tt.want)
		}
	}
}

// TestIfdGreyOptions: the lists decide which recipients use greylisting, and only a message that is
// counted begins an embargo.
func TestIfdGreyOptions(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	lists := map[string]*Whitelist{
		"nogrey": whitelistOf(t, "option greylist-off\n"),
		"grey":   whitelistOf(t, "option greylist-off\noption greylist-on\n"),
		"white":  whitelistOf(t, "ok env_From alice@example.org\n"),
	}
	s := &Ifd{Clearinghouse: new(prototest.House), Grey: new(Greylist), Now: func() time.Time {
		return now
	}, UserWhite: func(user string) *Whitelist { return lists[user] }}
	ask := serveIfd(t, s)
	for _, step := range []struct{ options, recipients, want string }{
		{"", "a\rnogrey\nb\rgrey\nc\rwhite\nd", "A\nAGAG\n"},
		{"grey-query", "e", "G\nG\n"}, {"query", "e", "G\nG\n"}, {"no-grey", "e", "A\nA\n"},
		{"later", "", ""},
		{"", "b\rgrey\nd", "A\nAA\n"}, {"", "e", "G\nG\n"},
		{"later", "", ""},
		{"", "e", "A\nA\n"},
	} {
		if step.options == "later" {
			now = now.Add(DefaultEmbargo)
		} else if got := ask(step.options + "\n192.0.2.7\nhelo\nalice@example.org\n" + step.recipients +
			"\n\n" + ifdMessage); got != step.want {
			t.Errorf("%q to %q: reply %q, want %q", step.options, step.recipients, got, step.want)
		}
	}
	// Some recipients refuse it and the others have not accepted it yet: it may be sent again.
	lists["a"] = whitelistOf(t, "option threshold body,1\n")
	if got := ask("\n192.0.2.7\nhelo\nalice@example.org\nx\ra\ny\n\n" + ifdMessage); got != "G\nRG\n" {
		t.Errorf("reply %q, want that it may come again", got)
	}
	if got := ask("\n\nhelo\nalice@example.org\nx\n\nFrom: a@example.org\n\nno address anywhere\n"); got != "A\nA\n" {
		t.Errorf("reply %q to a message from nowhere", got)
	}
}

// TestIfdForms: the parts of a reply, for each form of request.
func TestIfdForms(t *testing.T) {
	list := whitelistOf(t, "many env_From spam@example.org\nok env_From white@example.org\n")
	const table = "                            reported: "
	for _, tt := range []struct{ name, options, sender, recipients, message, want string }{
		{"black, asked for only", "header query", "spam@example.org", "bob\n", ifdMessage,
			"R\nR\nX-DCC-b-Metrics: vm 101; bulk Body=many Fuz1=0\n\n"},
		{"no body", "header", "a", "bob\n", "Subject: x\n\n", "A\nA\nX-DCC-b-Metrics: vm 101; Body=0\n\n"},
		{"black without a body", "header query", "spam@example.org", "bob\n", "Subject: x\n\n",
			"R\nR\nX-DCC-b-Metrics: vm 101; bulk Body=many\n\n"},
		{"white, with checksums", "cksums", "white@example.org", "bob\n", ifdMessage,
			"A\nA\nX-DCC--Metrics: vm; whitelist\n\n"},
		{"white, no recipients, spam", "header spam", "white@example.org", "", ifdMessage,
			"A\n\nX-DCC--Metrics: vm; whitelist\n\n"},
		{"black, no recipients, spam", "header spam", "spam@example.org", "", ifdMessage,
			"A\n\nX-DCC-b-Metrics: vm 101; bulk Body=many Fuz1=many\n\n"},
		{"body, no recipients", "body", "a", "", ifdMessage, "A\n\n" + ifdMessage},
		{"checksums, no recipients", "cksums", "a", "", ifdMessage, "A\n\n\n"},
		{"body of a header alone", "body", "a", "bob\n", "Subject: x", "A\nA\nSubject: x\nX-DCC-b-Metrics: vm 101; Body=0\n"},
		{"body with CRLF", "body", "a", "bob\n", "Subject: x\r\n\r\n",
			"A\nA\nSubject: x\r\nX-DCC-b-Metrics: vm 101; Body=0\r\n\r\n"},
		{"own header in any case", "body", "a", "bob\n",
			"x-dcc-B-METRICS: old\n\tolder\n oldest\nX-DCC-bb-Metrics: kept\nX-DCC-b: kept\n\n",
			"A\nA\nX-DCC-bb-Metrics: kept\nX-DCC-b: kept\nX-DCC-b-Metrics: vm 101; Body=0\n\n"},
	} {
		s := &Ifd{Clearinghouse: new(prototest.House), Brand: "b", White: func() *Whitelist { return list }}
		if got := serveIfd(t, s)(tt.options + "\n192.0.2.7\nhelo\n" + tt.sender + "\n" + tt.recipients +
			"\n" + tt.message); got != tt.want {
			t.Errorf("%s: reply\n%q, want\n%q", tt.name, got, tt.want)
		}
	}
	for options, want := range map[string]string{
		"cksums": table + "2 ", "cksums query": table + "0 ", "cksums spam": table + "many ",
	} {
		ask := serveIfd(t, &Ifd{Clearinghouse: new(prototest.House)})
		got := ask(options + "\n192.0.2.7\nhelo\na\nbob\ncarol\n\n" + ifdMessage)
		if !strings.Contains(got, "\n"+want) || !strings.Contains(got, "checksum  server\n") {
			t.Errorf("%s: reply\n%s, want %q and no thresholds", options, got, want)
		}
	}
}
