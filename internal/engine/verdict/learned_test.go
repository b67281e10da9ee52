package verdict

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead"
)

func drawLearned(t *rapid.T) Learned {
	l := Learned{Score: rapid.SampledFrom([]float64{0, 0, -1, 0.3, 0.5, 0.9, 0.99, 0.999, 1}).Draw(t, "score"),
		Used: 9, Reports: float64(rapid.SampledFrom([]int{10, 49, 50, 900}).Draw(t, "reports")),
		Condemns: rapid.Bool().Draw(t, "condemns")}
	others := rapid.SampledFrom([]float64{0, 0.4, 0.6, 1}).Draw(t, "other score")
	l.Without = func(float64) float64 { return min(others, l.Score) }
	return l
}

// TestScoreOfOthers checks what a score can change: a suspicion becomes spam, an unknown message
// suspected or spam, and a good message unknown. A low score changes nothing.
func TestScoreOfOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawAny(t)
		with := m.judge()
		score := m.learned
		m.learned = Learned{}
		without := m.judge()
		if with.Class == without.Class {
			return
		}
		ok := false
		switch from, to := without.Class, with.Class; {
		case from == bulkhead.ClassSuspected:
			ok = to == bulkhead.ClassSpam && (score.Score >= 0.5 && score.Without(1) >= 0.5 ||
				with.Rule == "words-alone" && score.Score >= 0.999 && score.Condemns && score.Reports >= 50)
		case from == bulkhead.ClassUnknown && to == bulkhead.ClassSpam:
			ok = score.Score >= 0.999 && score.Condemns && score.Reports >= 50 ||
				with.Rule == "words-and-part" && score.Score >= 0.99 && score.Without(1) >= 0.9 ||
				with.Rule == "new-sender" && score.Score >= 0.9 && score.Reports >= 50 && score.Without(1) >= 0.5
		case from == bulkhead.ClassUnknown && to == bulkhead.ClassSuspected:
			ok = score.Score >= 0.99 && score.Reports >= 50
		case from == bulkhead.ClassGood:
			ok = to == bulkhead.ClassUnknown && score.Score >= 0.9
		}
		if !ok {
			t.Fatalf("%v by %q became %v by %q with %+v", without.Class, without.Rule, with.Class, with.Rule, score)
		}
		if !strings.Contains(strings.Join(with.Reasons, "\n"), "words and style") {
			t.Fatalf("no reason for it: %q", with.Reasons)
		}
	})
}

// TestWantedHasNoScore checks that no score counts against a text that the node's own voters call
// wanted.
func TestWantedHasNoScore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawAny(t)
		m.learned = Learned{Score: 1, Used: 9, Reports: 900, Condemns: true, Without: func(float64) float64 { return 1 }}
		marked := false
		for i := range m.parts {
			if p := &m.parts[i]; p.scheme == bulkhead.Exact {
				p.Votes.Ham = p.Votes.Spam + 100
				p.settle(bulkhead.TextFacet)
				marked = true
			}
		}
		with := m.judge()
		m.learned = Learned{}
		if without := m.judge(); marked && with.Class != without.Class {
			t.Fatalf("%v by %q became %v by %q", without.Class, without.Rule, with.Class, with.Rule)
		}
	})
}

// TestScoreInWords checks the reason for a score, and that bulk needs more than one.
func TestScoreInWords(t *testing.T) {
	m := drawn{policy: Policy{Promotion: 1, NearMatch: 2}, parts: []part{body(bulkhead.Exact, Evidence{})},
		learned: Learned{Score: 0.99999, Used: 12, Reports: 60, Words: []string{"w:prize", "c:color:red", "m: text/html/0",
			"r:no name"}}}
	want := `words and style like reported mail: score 0.999 by 12 features, after 60 reports: "prize", ` +
		`style "color:red", type text/html/0, no name`
	if v := m.judge(); v.Reasons[0] != want || v.Rule != "words" || v.Learned != 0.99999 {
		t.Errorf("%+v, want %q", v, want)
	}
	m.parts[0].counts.Sightings = 20
	if v := m.judge(); v.Class != bulkhead.ClassBulk {
		t.Errorf("bulk with these words: %v by %s", v.Class, v.Rule)
	}
}

// TestWordsAndPart checks which reported parts condemn a message with the words of reported ones.
func TestWordsAndPart(t *testing.T) {
	policy := Policy{Promotion: 1, NearMatch: 2, Mature: true}
	one := voted(1, 0)
	one.Unblamed = Unit
	with := func(e Evidence, n uint32) Evidence { e.New = n; return e }
	good, half, balanced, revoked := with(one, 3), with(one, 17), voted(1, 1), one
	good.Good, half.Votes.Spam, balanced.Own, revoked.Own = 1, Unit/2, Nothing, ListedRevoked
	platform := func(e Evidence) part { return link("docs.google.com", e) }
	for _, tt := range []struct {
		name    string
		parts   []part
		score   float64
		without float64
		spam    bool
	}{
		{"a link", []part{platform(one)}, 0.99, 0.9, true},
		{"a link and other words", []part{platform(one)}, 0.98, 0.9, false},
		{"a link whose report is the words' only one", []part{platform(one)}, 1, 0.89, false},
		{"17 deliveries", []part{platform(with(one, 17))}, 1, 1, true},
		{"18 deliveries", []part{platform(with(one, 18))}, 1, 1, false},
		{"a link of known senders", []part{platform(good)}, 1, 1, false},
		{"the sender's own link", []part{from("own.example", Evidence{}), link("own.example", one)}, 1, 1, false},
		{"a link with a vote against it", []part{platform(balanced)}, 1, 1, false},
		{"a link that was revoked", []part{platform(revoked)}, 1, 1, false},
		{"a sender", []part{from("odd.example", half)}, 1, 1, true},
		{"a claimed name", []part{{scheme: bulkhead.Claim, name: "A Shop", Evidence: one}}, 1, 1, false},
		{"a network", []part{network(one)}, 1, 1, false},
		{"a sample", []part{body(bulkhead.Part, one)}, 1, 1, false},
		{"nothing reported", []part{link("odd.example", Evidence{})}, 1, 1, false},
	} {
		learned := Learned{Score: tt.score, Used: 9, Reports: 50, Without: func(n float64) float64 {
			if n == 1 {
				return tt.without
			}
			return 0 // like-reported leaves out two more
		}}
		m := drawn{policy: policy, parts: append(tt.parts, body(bulkhead.Exact, Evidence{})), learned: learned}
		if v := m.judge(); (v.Rule == "words-and-part") != tt.spam || (v.Class == bulkhead.ClassSpam) != tt.spam {
			t.Errorf("%s: %v by %s", tt.name, v.Class, v.Rule)
		}
	}
}

// TestNewSender checks which reported parts condemn the first mail of a verified sender, and no other mail.
func TestNewSender(t *testing.T) {
	mature := Policy{Promotion: 1, NearMatch: 2, Mature: true}
	one := voted(1, 0)
	with := func(change func(*Evidence)) Evidence { e := one; change(&e); return e }
	claim := part{scheme: bulkhead.Claim, name: "a shop", Evidence: one}
	sample := []Match{{Evidence: one, Samples: 1}}
	stranger := from("new.example", Evidence{New: 3})
	text := body(bulkhead.Exact, Evidence{})
	for _, tt := range []struct {
		name     string
		policy   Policy
		parts    []part
		contents []Match
		score    float64
		reports  float64
		without  float64
		spam     bool
	}{
		{"a claimed name", mature, []part{stranger, claim, text}, nil, 0.99, 50, 1, false},
		{"a sample", mature, []part{stranger, text}, sample, 0.99, 50, 0.5, true},
		{"a link", mature, []part{stranger, text, link("docs.google.com", one)}, nil, 0.99, 50, 0.5, true},
		{"a changed copy", mature, append(nearly(one), stranger), nil, 0.99, 50, 0.5, true},
		{"one that is often delivered", mature, append(nearly(voted(2, 0).delivered(61)), stranger), nil, 0.99, 50, 1, false},
		{"one that known senders send", mature, append(nearly(one), stranger, body(bulkhead.PyzorDigest, Evidence{Good: 1})),
			nil, 0.99, 50, 1, false},
		{"other words", mature, []part{stranger, text}, sample, 0.98, 50, 0.5, false},
		{"a report that is the words' only one", mature, []part{stranger, text}, sample, 1, 50, 0.49, false},
		{"49 reports", mature, []part{stranger, text}, sample, 1, 49, 1, false},
		{"nothing reported", mature, []part{stranger, text}, nil, 0.99, 50, 1, false},
		{"a new node", Policy{Promotion: 1, NearMatch: 2}, []part{stranger, text}, sample, 0.99, 50, 1, false},
		{"nobody verified", mature, []part{network(Evidence{}), text}, sample, 0.99, 50, 1, false},
		{"a sender of yesterday", mature, []part{from("new.example", Evidence{Old: 1}), text}, sample, 0.99, 50, 1, false},
		{"a sender of the last hours", mature, []part{from("new.example", Evidence{Old: 1, Late: 1}), text}, sample, 0.99,
			50, 1, true},
		{"a sender of mail at a peer", mature, []part{from("peers.example", Evidence{}), text}, sample, 0.99, 50, 1, false},
		{"a quoted sample", mature, []part{stranger, text}, []Match{{Evidence: one, Samples: 1, Quoted: true}}, 0.99, 50, 1,
			false},
		{"18 deliveries of a sample", mature, []part{stranger, text},
			[]Match{{Evidence: with(func(e *Evidence) { e.New = 18 }), Samples: 1}}, 0.99, 50, 1, false},
		{"a sample beside one of 18 deliveries", mature, []part{stranger, text},
			append([]Match{{Evidence: with(func(e *Evidence) { e.New = 18 }), Samples: 1}}, sample...), 0.99, 50, 1, false},
		{"a text that is seldom reported", mature, append(nearly(with(func(e *Evidence) { e.New = 68 })), stranger), nil,
			0.99, 50, 1, false},
		{"a sample of known senders", mature, []part{stranger, text},
			[]Match{{Evidence: with(func(e *Evidence) { e.Good = 1 }), Samples: 1}}, 0.99, 50, 1, false},
	} {
		learned := Learned{Score: tt.score, Used: 9, Reports: tt.reports, Without: func(n float64) float64 {
			if n <= 2 {
				return tt.without
			}
			return 0 // like-reported leaves out two more
		}}
		m := drawn{policy: tt.policy, parts: tt.parts, contents: tt.contents, learned: learned,
			vouched: map[string]bool{"peers.example": true}}
		if v := m.judge(); (v.Rule == "new-sender") != tt.spam || (v.Class == bulkhead.ClassSpam) != tt.spam {
			t.Errorf("%s: %v by %s", tt.name, v.Class, v.Rule)
		}
	}
}

// TestOwnReportIsNoFurtherEvidence checks that a message is not condemned by the words of the very report
// that made it suspected.
func TestOwnReportIsNoFurtherEvidence(t *testing.T) {
	linked := func(voters uint32, e Evidence) []part {
		p := link("odd.example", e)
		p.counts.Spam = voters
		return []part{body(bulkhead.Exact, Evidence{}), p}
	}
	one, shared := voted(1, 0), voted(1, 0)
	shared.Unblamed = 6 * Unit
	faint := nearly(one)
	for i := range 2 {
		faint[i].counts.Spam = 5
	}
	for name, tt := range map[string]struct {
		parts []part
		want  float64 // reports that are left out
	}{
		"a text": {nearly(one), 3}, "a text of five voters": {faint, 7}, "a link": {linked(1, one), 3},
		"a link of five voters": {linked(5, one), 7}, "a link that shares six votes": {linked(1, shared), 8},
	} {
		asked := 0.0
		m := drawn{policy: Policy{Promotion: 1, NearMatch: 2, Mature: true}, parts: tt.parts,
			learned: Learned{Score: 1, Used: 9, Reports: 90, Without: func(n float64) float64 {
				asked = max(asked, n)
				return 0.4
			}}}
		if v := m.judge(); v.Class != bulkhead.ClassSuspected || asked != tt.want {
			t.Errorf("%s: %v by %q without %v reports, want %v", name, v.Class, v.Rule, asked, tt.want)
		}
		m.learned.Without = func(float64) float64 { return 0.6 }
		if v := m.judge(); v.Class != bulkhead.ClassSpam || v.Rule != "like-reported" {
			t.Errorf("%s: %v by %q with other reports", name, v.Class, v.Rule)
		}
	}
}

// TestContainsReportedText checks that a message with a part of a reported text is spam by its words only if they are
// nearly as certain without the reports of that text, and never if it quotes the text.
func TestContainsReportedText(t *testing.T) {
	without := 0.0
	for name, tt := range map[string]struct {
		reports, without float64
		quoted, good     bool
		want             bool
	}{
		"certain":            {reports: 50, without: 0.99, want: true},
		"less certain":       {reports: 50, without: 0.98},
		"few reports":        {reports: 49, without: 1},
		"a quote":            {reports: 90, without: 1, quoted: true},
		"a known sender":     {reports: 90, without: 1, good: true},
		"no further reports": {reports: 90, without: 0},
	} {
		without = 0
		d := decision{Case: &Case{}, class: bulkhead.ClassSuspected, by: byHoldsPart, senderGood: tt.good, finding: -1,
			text: text{scheme: bulkhead.Part, quoted: tt.quoted, weight: weight{reported: 4}}}
		d.Learned = Learned{Score: 1, Used: 9, Reports: tt.reports, Without: func(n float64) float64 {
			without = n
			return tt.without
		}}
		if got := d.likeReported(); got != tt.want || without != 0 && without != 6 {
			t.Errorf("%s: %v, want %v, without %v reports", name, got, tt.want, without)
		}
	}
}

// TestWordsAlone checks which messages a score near 1 makes spam if the administrator lets it.
func TestWordsAlone(t *testing.T) {
	certain := Learned{Score: 0.999, Used: 9, Reports: 50, Condemns: true}
	with := func(change func(*Learned)) Learned { l := certain; change(&l); return l }
	suspect := decision{class: bulkhead.ClassSuspected, by: byHoldsPart, excuse: noRule}
	unknown := decision{class: bulkhead.ClassUnknown, by: noRule, excuse: noRule}
	mailOf := func(d decision, change func(*decision)) decision { change(&d); return d }
	for name, tt := range map[string]struct {
		d       decision
		learned Learned
		want    bool
	}{
		"nothing else known":  {unknown, certain, true},
		"a part of a text":    {suspect, certain, true},
		"a less certain part": {suspect, with(func(l *Learned) { l.Score = 0.998 }), false},
		"few reports":         {suspect, with(func(l *Learned) { l.Reports = 49 }), false},
		"not set":             {suspect, with(func(l *Learned) { l.Condemns = false }), false},
		"a quote":             {mailOf(suspect, func(d *decision) { d.text.quoted = true }), certain, false},
		"a known sender":      {mailOf(suspect, func(d *decision) { d.senderGood = true }), certain, false},
		"a wanted text":       {mailOf(suspect, func(d *decision) { d.pair.wanted = true }), certain, false},
		"a revoked text":      {mailOf(unknown, func(d *decision) { d.text.judged = bulkhead.Revoked }), certain, false},
		"excused":             {mailOf(unknown, func(d *decision) { d.excuse = byService }), certain, false},
	} {
		tt.d.Case, tt.d.finding = &Case{}, -1
		tt.d.Learned = tt.learned
		if got := tt.d.wordsAlone(); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestUnlikeSender checks which scores make mail unknown that its sender alone makes good.
func TestUnlikeSender(t *testing.T) {
	for _, tt := range []struct {
		name  string
		text  Evidence
		score float64
		want  bulkhead.Class
	}{
		{"like reported mail", Evidence{}, 0.9, bulkhead.ClassUnknown},
		{"less so", Evidence{}, 0.89, bulkhead.ClassGood},
		{"a text that a user wants", voted(0, 1), 1, bulkhead.ClassGood},
	} {
		m := drawn{policy: Policy{Promotion: 1, NearMatch: 2, Mature: true}, learned: Learned{Score: tt.score, Used: 9},
			parts: []part{body(bulkhead.Exact, tt.text), from("known.example", Evidence{}.delivered(30))}}
		if v := m.judge(); v.Class != tt.want {
			t.Errorf("%s: %v by %s, want %v", tt.name, v.Class, v.Rule, tt.want)
		}
	}
}

// TestHoldsPart checks which messages have their words from a reported text: those that contain a part of it.
func TestHoldsPart(t *testing.T) {
	part, near := bulkhead.MustSignature(bulkhead.Part, []byte("part")), bulkhead.MustSignature(bulkhead.Near, []byte("n"))
	reported, unknown := bulkhead.Finding{Judged: bulkhead.JudgedSpam}, bulkhead.Finding{}
	for name, tt := range map[string]struct {
		d    decision
		want bool
	}{
		"a near copy":         {decision{}, false},
		"a text with a part":  {decision{text: text{scheme: bulkhead.Part}}, true},
		"a text without":      {decision{text: text{scheme: bulkhead.Near}}, false},
		"a part was reported": {decision{Case: &Case{Findings: []bulkhead.Finding{unknown, reported}}}, true},
		"a band was reported": {decision{Case: &Case{Findings: []bulkhead.Finding{reported, unknown}}}, false},
	} {
		if tt.d.Case == nil {
			tt.d.Case = &Case{Findings: []bulkhead.Finding{unknown, unknown}}
		}
		tt.d.Signatures = []bulkhead.Signature{near, part}
		if got := tt.d.holdsPart(); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
