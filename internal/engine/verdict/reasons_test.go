package verdict

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

func TestReasons(t *testing.T) {
	day := time.Unix(20_000*86400, 0).UTC()
	v := bulkhead.Verdict{Threshold: 20, Whitelisted: "network 192.0.2.0/24", Findings: []bulkhead.Finding{
		found(bulkhead.Exact, 1, bulkhead.Finding{
			Judged: bulkhead.JudgedSpam, Confidence: 62, Contested: true, First: day, Error: 1.0 / 1234,
			Sightings: bulkhead.Many, Spam: 2, Ham: 1,
		}),
	}}
	put(&v, false)
	want := []string{
		"whitelisted: network 192.0.2.0/24",
		"reported as spam by reporters that are trusted (" + bulkhead.Exact.String() + "), confidence 62 of 100",
		"seen many times (" + bulkhead.Exact.String() + ") since 2024-10-04: bulk, the threshold is 20",
		"called spam by 2 voters, and wanted by 1 voter: contested",
		"a filter error would show this for one in 1,200 messages that no voter reported",
	}
	if !slices.Equal(v.Reasons, want) {
		t.Errorf("reasons are\n%s\nwant\n%s", strings.Join(v.Reasons, "\n"), strings.Join(want, "\n"))
	}
	v.Reasons = nil
	if put(&v, true); v.Reasons != nil {
		t.Errorf("a terse verdict gives the reasons %q", v.Reasons)
	}
}

// TestAllReasons: all reasons, for each rule that may decide.
func TestAllReasons(t *testing.T) {
	var (
		no    Evidence
		one   = voted(1, 0)
		two   = voted(2, 0)
		bank  = from("bank.example", no.delivered(200))
		p     = func(parts ...part) []part { return parts }
		pair  = func(name string, e Evidence) map[string]Evidence { return map[string]Evidence{name: e} }
		exact = func(e Evidence) part { return body(bulkhead.Exact, e) }
		good  = func(e Evidence, n uint32) Evidence { e.Good = n; return e }
		seen  = func(x part, f bulkhead.Finding) part { x.counts = f; return x }
		aged  = func(x part) part { x.aged = true; return x }
		since = bulkhead.Finding{Sightings: 7, First: time.Unix(20_000*86400, 0).UTC()}
		held  = "held exactly: no filter error is possible"
		vote1 = "called spam by 1 voter"
		vote2 = "called spam by 2 voters"
	)
	for _, tt := range []struct {
		name  string
		parts []part
		pairs map[string]Evidence
		want  []string
	}{
		{"nothing", p(exact(no)), nil, []string{"never seen and never reported here"}},
		{"nothing of a link", p(exact(no), link("new.example", no)), nil, []string{"never seen and never reported here"}},
		{"a copy", p(exact(one)), nil,
			[]string{"reported as spam by reporters that are trusted (bulkhead/exact), confidence 80 of 100", vote1, held}},
		{"seen", p(seen(exact(no), since)), nil,
			[]string{"seen 7 times (bulkhead/exact) since 2024-10-04, below the threshold of 20", held}},
		{"bulk", p(seen(exact(no), bulkhead.Finding{Sightings: 20})), nil,
			[]string{"seen 20 times (bulkhead/exact): bulk, the threshold is 20", held}},
		{"bulk that is wanted", p(seen(exact(no), bulkhead.Finding{Sightings: 20}), bank),
			pair("bank.example", voted(0, 1)), []string{
				"the sender \"bank.example\" is known by 200 deliveries, and this text was said to be wanted",
				"seen 20 times (bulkhead/exact): bulk, the threshold is 20", held}},
		{"many votes, and not bulk", p(exact(voted(25, 0))), nil,
			[]string{"reported as spam by reporters that are trusted (bulkhead/exact), confidence 99 of 100",
				"called spam by 25 voters", held}},
		{"votes as many as the threshold", p(exact(voted(20, 0))), nil,
			[]string{"reported as spam by reporters that are trusted (bulkhead/exact), confidence 99 of 100",
				"called spam by 20 voters", held}},
		{"revoked", p(exact(voted(1, 1))), nil, []string{
			"was reported as spam by 1 voter, and that was revoked (bulkhead/exact)",
			"called spam by 1 voter, and wanted by 1 voter: contested", held}},
		{"a known sender", p(exact(no), bank), nil,
			[]string{"the sender \"bank.example\" is known by 200 deliveries, and hardly ever reported",
				"never seen and never reported here"}},
		{"a known sender, seen", p(seen(exact(no), since), seen(bank, since)), nil, []string{
			"the sender \"bank.example\" is known by 200 deliveries since 2024-10-04, and hardly ever reported",
			"seen 7 times (bulkhead/exact) since 2024-10-04, below the threshold of 20", held}},
		{"from others", p(exact(one), bank), nil, []string{
			"the text was reported once from others; the sender \"bank.example\" is known by 200 deliveries, and was not",
			vote1, held}},
		{"of this sender", p(exact(two), bank), pair("bank.example", voted(3, 0)), []string{
			"reported as spam by reporters that are trusted (bulkhead/exact), from this sender or with one " +
				"of its links, confidence 89 of 100", vote2, held}},
		{"wanted", p(exact(one), from("ann.example", no)), pair("ann.example", voted(0, 1)), []string{
			"the text was reported once, but the sender \"ann.example\" was said to be wanted", vote1, held}},
		{"links that are known", append(nearly(two), link("shop.example", wellSent(9))), nil, []string{
			"the text was reported 2 times, but all its links are known for days and were not", vote2, held}},
		{"digests", p(body(bulkhead.PyzorDigest, one)), nil,
			[]string{"reported as spam by reporters that are trusted (pyzor/digest), confidence 80 of 100",
				vote1, held}},
		{"digests of known senders", p(body(bulkhead.PyzorDigest, good(one, 3))), nil, []string{
			"the text was reported once, but 3 deliveries of it came from known senders", vote1,
			held}},
		{"a changed copy by one", nearly(one), nil, []string{
			"nearly the same as a message reported as spam: 2 bands of bulkhead/near agree; a changed copy " +
				"is suspected until a second voice calls it spam, confidence 45 of 100",
			vote1, held}},
		{"by two", nearly(two), nil, []string{
			"nearly the same as a message reported as spam: 2 bands of bulkhead/near agree, confidence 70 of 100",
			vote2, held}},
		{"by two, in two contexts", nearly(Evidence{Votes: voted(9, 0).Votes, Own: Listed, Contexts: 2}), nil, []string{
			"nearly the same as a message reported as spam: 2 bands of bulkhead/near agree, with several " +
				"senders or links, confidence 90 of 100",
			"called spam by 9 voters", held}},
		{"by two, often delivered", nearly(two.delivered(61)), nil, []string{
			"nearly the same as a message reported as spam: 2 bands of bulkhead/near agree; it was often " +
				"delivered without complaint, so it is suspected only, confidence 47 of 100",
			vote2, held}},
		{"by two, sent by good senders", append(nearly(two), body(bulkhead.PyzorDigest, good(no, 1))), nil, []string{
			"nearly the same as a message reported as spam: 2 bands of bulkhead/near agree; known senders " +
				"send the same, so it is suspected only, confidence 47 of 100",
			vote2, held}},
		{"a link", p(exact(no), seen(link("evil.example", two.delivered(12)), since)), nil, []string{
			"links to \"evil.example\": reported as spam by 2 of about 12 recipients since 2024-10-04, confidence 89 of 100",
			held}},
		{"a link by one of one", p(link("evil.example", one)), nil, []string{
			"links to \"evil.example\": reported as spam by 1 of about 1 recipient; suspected until a second " +
				"voice calls it spam, confidence 39 of 100", held}},
		{"a link at other servers", p(exact(no), link("evil.example", Evidence{Peers: Peers{Spam: 2}, Old: 3})), nil,
			[]string{
				"links to \"evil.example\": reported as spam at other servers, 3 recipients here, confidence 89 of 100", held}},
		{"a link, long ago", p(exact(no), aged(link("evil.example", two.delivered(3)))), nil, []string{
			"links to \"evil.example\": reported as spam here before, 3 recipients here, confidence 89 of 100", held}},
		{"a link, long ago and at other servers", p(exact(no),
			aged(link("evil.example", Evidence{Own: Listed, Peers: Peers{Spam: 2}, Old: 3}))), nil, []string{
			"links to \"evil.example\": reported as spam here before, and at other servers, 3 recipients " +
				"here, confidence 89 of 100", held}},
		{"a link beside a listed text", append(nearly(one), link("evil.example", two)), nil, []string{
			"links to \"evil.example\": reported as spam by 2 of about 2 recipients, confidence 89 of 100",
			"its text was reported as spam, too (bulkhead/near)", vote1, held}},
		{"the same, first in order", append(p(link("evil.example", two)), nearly(one)...), nil, []string{
			"links to \"evil.example\": reported as spam by 2 of about 2 recipients, confidence 89 of 100",
			"its text was reported as spam, too (bulkhead/near)", vote1, held}},
		{"a contact", p(exact(no), part{scheme: bulkhead.Contact, name: "tel:1", Evidence: two}), nil, []string{
			"the contact \"tel:1\": reported as spam by 2 of about 2 recipients, confidence 89 of 100", held}},
		{"a claimed name", p(exact(no), part{scheme: bulkhead.Claim, name: "bank", Evidence: two}), nil, []string{
			"the name \"bank\": reported as spam by 2 of about 2 recipients; suspected until a second voice " +
				"calls it spam, confidence 47 of 100", held}},
		{"an attachment", p(exact(no), part{scheme: bulkhead.Attachment, name: "a", Evidence: two}), nil, []string{
			"the attachment \"bulkhead/attachment:61\": reported as spam by 2 of about 2 recipients, confidence 89 of 100",
			held}},
	} {
		v, _, _ := judge(tt.parts, tt.pairs, "")
		if !slices.Equal(v.Reasons, tt.want) {
			t.Errorf("%s: reasons\n%s\nwant\n%s", tt.name, strings.Join(v.Reasons, "\n"), strings.Join(tt.want, "\n"))
		}
	}
}

// TestVotesInWords: the reasons mention a single vote on either side.
func TestVotesInWords(t *testing.T) {
	for _, tt := range []struct {
		spam, ham uint32
		want      string
	}{
		{1, 0, "called spam by 1 voter"},
		{0, 1, "called wanted by 1 voter"},
		{bulkhead.Many, 2, "called spam by many voters, and wanted by 2 voters"},
	} {
		v := bulkhead.Verdict{Threshold: 20, Findings: []bulkhead.Finding{found(bulkhead.Exact, 1,
			bulkhead.Finding{Spam: tt.spam, Ham: tt.ham})}}
		put(&v, false)
		if !slices.Contains(v.Reasons, tt.want) {
			t.Errorf("%d for spam, %d against: %q, want %q", tt.spam, tt.ham, v.Reasons, tt.want)
		}
	}
}

func TestErrorReason(t *testing.T) {
	for _, tt := range []struct {
		p    float64
		want string
	}{
		{0, "held exactly"},
		{1e-19, "all but impossible"},
		{0.5, "too full"},
		{0.4, "one in 3 "},
		{1.0 / 57, "one in 57 "},
		{1.0 / 12_345, "one in 12,000 "},
		{1 / 2.34e6, "one in 2.3 million "},
		{1 / 5.6e9, "one in 5.6 billion "},
		{1 / 7.8e12, "one in 7.8 trillion "},
		{1 / 9.1e15, "one in 9.1 quadrillion "},
		{1 / 1.23e8, "one in 120 million "},
		{1 / 4.56e8, "one in 460 million "},
		{1 / 99.7e6, "one in 100 million "},
		{1 / 9.96e8, "one in 1 billion "},
		{1 / 2.0e12, "one in 2 trillion "},
		{1e-18, "one in 1000 quadrillion "},
		{1.0 / 996, "one in 1,000 "},
		{1.0 / 994, "one in 990 "},
		{1.0 / 1_004, "one in 1,000 "},
		{1.0 / 1_009, "one in 1,000 "},
		{1.0 / 104_999, "one in 100,000 "},
		{1.0 / 996_000, "one in 1 million "},
	} {
		if got := errorReason(tt.p, "no voter reported"); !strings.Contains(got, tt.want) {
			t.Errorf("error %g: %q, want %q in it", tt.p, got, tt.want)
		}
	}
}
