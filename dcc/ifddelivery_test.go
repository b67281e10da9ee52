package dcc

import (
	"context"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

var (
	evilLink = bulkhead.NamedSignature(bulkhead.Link, "evil.example")
	alice    = bulkhead.NamedSignature(bulkhead.Sender, "alice@example.org")
)

// ifdBody returns the signature by which all doors know the Body of a message.
func ifdBody(t *testing.T, message string) bulkhead.Signature {
	t.Helper()
	sums, err := digests.Sums(t.Context(), []byte(message), digests.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sums {
		if s.Type == digests.TypeBody {
			return signatureOf(&Checksum{s.Type, s.Sum})
		}
	}
	t.Fatal("no Body")
	return bulkhead.Signature{}
}

// wholeIfd returns a server that gives every message the signatures of a link, a sender, and the
// Body that DCC also counts.
func wholeIfd(t *testing.T, house bulkhead.Clearinghouse) *Ifd {
	sigs := []bulkhead.Signature{evilLink, ifdBody(t, ifdMessage), alice}
	return &Ifd{
		Clearinghouse: house, Brand: "b",
		Signatures: func(_ context.Context, _ []byte, sender string, client netip.Addr) ([]bulkhead.Signature,
			bulkhead.Source, error) {
			return sigs, bulkhead.Source{Sender: sender, Client: client, DKIM: []string{"example.org"}}, nil
		},
	}
}

// sightings returns how often a signature was seen.
func sightings(t *testing.T, house *prototest.House, sig bulkhead.Signature) uint32 {
	t.Helper()
	v, err := house.Check(t.Context(), bulkhead.Query{Signatures: []bulkhead.Signature{sig}})
	if err != nil {
		t.Fatal(err)
	}
	return v.Findings[0].Sightings
}

// TestIfdDelivers: a message that passes counts as a delivery for all its signatures, and its
// checksums are counted once.
func TestIfdDelivers(t *testing.T) {
	disabled := whitelistOf(t, "option dcc-off\n")
	for _, tt := range []struct {
		name, options, recipients string
		count                     uint32 // 0: no delivery
		mailboxes                 []string
	}{
		{"one", "header", "Bob+shops@Example.net", 1, []string{"bob@example.net"}},
		{"two, one of them twice", "header", "bob@example.net\n<bob+x@example.net>\ncarol@example.net", 3,
			[]string{"bob@example.net", "carol@example.net"}},
		{"nobody knows whom", "cksums grey-off", "unknown", 1, nil},
		{"one of two is not named", "header", "bob@example.net\nunknown", 2, nil},
		{"as rspamd has it", "header", "test@example.com", 1, nil},
		{"one wants no DCC", "header", "bob@example.net\ncarol@example.net\roff", 1, []string{"bob@example.net"}},
		{"nobody wants it", "header", "carol@example.net\roff", 0, nil},
		{"a question", "header query", "bob@example.net", 0, nil},
		{"spam", "header spam", "bob@example.net", 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			house := new(prototest.House)
			s := wholeIfd(t, house)
			s.UserWhite = func(string) *Whitelist { return disabled }
			ask := serveIfd(t, s)
			request := tt.options + "\n192.0.2.7\nhelo\nalice@example.org\n" + tt.recipients + "\n\n" + ifdMessage
			ask(request)
			var delivered []bulkhead.Report
			for _, r := range house.Reports() {
				if r.Vote == bulkhead.Sighting && len(r.Source.DKIM) > 0 {
					delivered = append(delivered, r)
				}
			}
			if tt.count == 0 {
				if len(delivered) > 0 {
					t.Errorf("delivered: %+v", delivered)
				}
				return
			}
			want := []bulkhead.Report{{
				Signatures: []bulkhead.Signature{evilLink, alice}, Count: tt.count, Recipients: tt.mailboxes,
				Source: bulkhead.Source{Sender: "alice@example.org", Client: netip.MustParseAddr("192.0.2.7"),
					DKIM: []string{"example.org"}},
				Reporter: delivered[0].Reporter, ID: delivered[0].ID,
			}}
			if !reflect.DeepEqual(delivered, want) {
				t.Errorf("delivered\n%+v, want\n%+v", delivered, want)
			}
			if got := sightings(t, house, ifdBody(t, ifdMessage)); got != tt.count {
				t.Errorf("Body counted %d times, want %d", got, tt.count)
			}
			ask(request) // again, as after a delay
			if got := sightings(t, house, alice); got != tt.count || delivered[0].ID == "" {
				t.Errorf("sender seen %d times, want %d; ID %q", got, tt.count, delivered[0].ID)
			}
			ask(strings.Replace(request, "Message-ID: <1@", "Message-ID: <2@", 1))
			if got := sightings(t, house, alice); got != 2*tt.count {
				t.Errorf("sender of two mails seen %d times, want %d", got, 2*tt.count)
			}
		})
	}
}

// TestIfdWithoutMessageID: each mail counts as a delivery if mails cannot be distinguished by ID.
func TestIfdWithoutMessageID(t *testing.T) {
	house := new(prototest.House)
	ask := serveIfd(t, wholeIfd(t, house))
	request := strings.Replace(ifdRequestText("header", "bob@example.net"), "Message-ID: <1@example.org>\n", "", 1)
	ask(request)
	ask(request)
	if got := sightings(t, house, alice); got != 2 {
		t.Errorf("sender seen %d times, want 2", got)
	}
}

// TestIfdVerdict: the verdict on the whole message decides whether it is many.
func TestIfdVerdict(t *testing.T) {
	const many, once = "Body=many Fuz1=many", "Body=1 Fuz1=1"
	const reason = " (seen 0 times, 1 spam votes,\n\t0 ham votes)\n\n"
	body := ifdBody(t, ifdMessage)
	cmn := map[digests.Type]uint32{digests.TypeBody: Many, digests.TypeFuz1: Many}
	for _, tt := range []struct {
		name       string
		spam       []bulkhead.Signature // reported as spam through another door
		suspected  bulkhead.Signature
		options    string
		thresholds map[digests.Type]uint32
		want       string
	}{
		{"unknown", nil, bulkhead.Signature{}, "header", cmn, "A\nA\nX-DCC-b-Metrics: vm 101; " + once + "\n\n"},
		{"spam by its link", []bulkhead.Signature{evilLink}, bulkhead.Signature{}, "header", cmn,
			"R\nR\nX-DCC-b-Metrics: vm 101; bulk " + many + reason},
		{"spam by its link, asked", []bulkhead.Signature{evilLink}, bulkhead.Signature{}, "header query", cmn,
			"R\nR\nX-DCC-b-Metrics: vm 101; bulk " + many + reason},
		{"spam, nothing is refused", []bulkhead.Signature{evilLink}, bulkhead.Signature{}, "header", nil,
			"A\nA\nX-DCC-b-Metrics: vm 101; bulk " + many + reason},
		{"spam, other types are refused", []bulkhead.Signature{evilLink}, bulkhead.Signature{}, "header",
			map[digests.Type]uint32{digests.TypeFrom: 1}, "A\nA\nX-DCC-b-Metrics: vm 101; bulk " + many + reason},
		{"suspected", nil, evilLink, "header", cmn, "A\nA\nX-DCC-b-Metrics: vm 101; " + once + "\n\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			house := &prototest.House{Suspected: map[bulkhead.Signature]bool{tt.suspected: true}}
			for _, sig := range tt.spam {
				if _, err := house.Report(t.Context(), bulkhead.Report{Signatures: []bulkhead.Signature{sig},
					Vote: bulkhead.Spam}); err != nil {
					t.Fatal(err)
				}
			}
			s := wholeIfd(t, house)
			s.Thresholds = tt.thresholds
			if got := serveIfd(t, s)(ifdRequestText(tt.options, "bob@example.net")); got != tt.want {
				t.Errorf("reply\n%q, want\n%q", got, tt.want)
			}
		})
	}
	// Its white list also has all signatures.
	house := &prototest.House{White: map[bulkhead.Signature]bool{alice: true}}
	if got, want := serveIfd(t, wholeIfd(t, house))(ifdRequestText("header",
		"bob@example.net")), "A\nA\nX-DCC--Metrics: vm; whitelist\n\n"; got != want || sightings(t, house, body) != 0 {
		t.Errorf("whitelisted: %q, want %q", got, want)
	}
}

// milder is a clearinghouse that suspects what the House in it calls spam.
type milder struct{ *prototest.House }

func (h milder) Check(ctx context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	v, err := h.House.Check(ctx, q)
	if v.Class == bulkhead.ClassSpam {
		v.Class = bulkhead.ClassSuspected
	}
	return v, err
}

// TestIfdSuspectedIsNotMany: a message whose checksums were reported as spam, through DCC and for
// all doors, is not many if the verdict on the whole message is milder.
func TestIfdSuspectedIsNotMany(t *testing.T) {
	house := milder{new(prototest.House)}
	ask := serveIfd(t, wholeIfd(t, house))
	if got, want := ask(ifdRequestText("header spam",
		"bob@example.net")), "R\nR\nX-DCC-b-Metrics: vm 101; bulk Body=many Fuz1=many\n\n"; got != want {
		t.Errorf("reported: %q, want %q", got, want)
	}
	if got, want := ask(ifdRequestText("header query",
		"bob@example.net")), "A\nA\nX-DCC-b-Metrics: vm 101; Body=1 Fuz1=1\n\n"; got != want {
		t.Errorf("suspected: %q, want %q", got, want)
	}
	// Without the whole message, the checksums decide.
	ask = serveIfd(t, &Ifd{Clearinghouse: house, Brand: "b"})
	if got, want := ask(ifdRequestText("header query",
		"bob@example.net")), "A\nA\nX-DCC-b-Metrics: vm 101; Body=many Fuz1=many\n\n"; got != want {
		t.Errorf("by its checksums: %q, want %q", got, want)
	}
}

// unlisting is a clearinghouse that lists nothing.
type unlisting struct{ *prototest.House }

func (h unlisting) Report(ctx context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	if r.Vote == bulkhead.Spam {
		return bulkhead.Receipt{Whitelisted: len(r.Signatures)}, nil
	}
	return h.House.Report(ctx, r)
}

// TestIfdUnlisted: the header states that a report had no effect; the protocol has no other place
// for it.
func TestIfdUnlisted(t *testing.T) {
	ask := serveIfd(t, wholeIfd(t, unlisting{new(prototest.House)}))
	want := "X-DCC-b-Metrics: vm 101; bulk Body=many Fuz1=many (not listed: it is\n\twhitelisted or " +
		"does not distinguish messages)\n\n"
	if got := ask(ifdRequestText("header spam", "bob@example.net")); !strings.HasSuffix(got, want) {
		t.Errorf("reported: %q, want it to end in %q", got, want)
	}
}

// TestIfdTrapVote: spam that only a trap reported is marked as such.
func TestIfdTrapVote(t *testing.T) {
	trap := whitelistOf(t, "option spam-trap-reject\n")
	for options, want := range map[string]bool{"header": true, "header spam": false} {
		house := new(prototest.House)
		s := wholeIfd(t, house)
		s.UserWhite = func(string) *Whitelist { return trap }
		serveIfd(t, s)(ifdRequestText(options, "t@example.net\rtrap"))
		all := house.Reports()
		if last := all[len(all)-1]; last.Vote != bulkhead.Spam || last.Trap != want {
			t.Errorf("%s: %v, trap %v; want spam, trap %v", options, last.Vote, last.Trap, want)
		}
	}
}

// TestIfdReason: no message can write a count, a line or the end of the comment into
// the header.
func TestIfdReason(t *testing.T) {
	for reason, want := range map[string]string{
		"": "", "=;": "",
		"links to evil.example":          "(links to evil.example)",
		"says \"Body=0) X\r\nR\n\x00é\"": "(says Body 0 X R)",
		strings.Repeat("a", 1000):        "(" + strings.Repeat("a", maxReason) + ")",
	} {
		if got := strings.Join(comment(reason), " "); got != want {
			t.Errorf("comment(%q) = %q, want %q", reason, got, want)
		}
	}
	for _, m := range []metrics{{listed: true}, {listed: true,
		sums: []countedSum{{Sum: digests.Sum{Type: digests.TypeFuz1}}}}} {
		if got := m.header(); !strings.Contains(got, "Body=many") {
			t.Errorf("header of a listed message without Body: %q", got)
		}
	}
}

// TestIfdCountsNearCopies: Fuz1 counts all copies that the clearinghouse takes for one text. Body
// counts equal copies only.
func TestIfdCountsNearCopies(t *testing.T) {
	house := &prototest.House{Threshold: 1000}
	if _, err := house.Report(t.Context(), bulkhead.Report{Signatures: []bulkhead.Signature{evilLink},
		Count: 25}); err != nil {
		t.Fatal(err)
	}
	ask := serveIfd(t, wholeIfd(t, house))
	for _, tt := range []struct{ options, body, fuz1 string }{
		{"header query", " Body=0", " Fuz1=25"}, {"header", " Body=1", " Fuz1=26"}, {"header query", " Body=1", " Fuz1=26"},
	} {
		got := ask(tt.options + "\n192.0.2.7\nhelo\nalice@example.org\nbob@example.net\n\n" + ifdMessage)
		if !strings.Contains(got, tt.body) || !strings.Contains(got, tt.fuz1) {
			t.Errorf("%s: %q, want%s%s", tt.options, got, tt.body, tt.fuz1)
		}
	}
}
