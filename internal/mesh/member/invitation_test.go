package member

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
)

func sampleInvitation(t testing.TB) *Invitation {
	id := newIdentityOf(t)
	return &Invitation{
		Network: enginetest.Secret.ID(), Inviter: id.ID(), Name: "alice",
		Hubs:    []string{"alice.example.com:8421", "[2001:db8::1]:8421"},
		Expires: time.Unix(1_800_000_000, 0).UTC(), Secret: [SecretBytes]byte{1, 2, 3},
	}
}

func line(t testing.TB, v *Invitation) string {
	t.Helper()
	text, err := v.Line()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestInvitation checks that a line contains the values that it was made of, however it was
// wrapped, and that any one wrong character is reported as a mistake.
func TestInvitation(t *testing.T) {
	v := sampleInvitation(t)
	text := line(t, v)
	for _, wrapped := range []string{text, "  " + text + "\r\n", text[:30] + "\n   " + text[30:]} {
		if got, err := ParseInvitation(wrapped); err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%q: %+v, %v; want %+v", wrapped, got, err, v)
		}
	}
	for i := len(invitationPrefix); i < len(text); i++ {
		other := byte('A')
		if text[i] == other {
			other = 'B'
		}
		if _, err := ParseInvitation(text[:i] + string(other) + text[i+1:]); !errors.Is(err, ErrInvitation) {
			t.Errorf("character %d changed: %v", i, err)
		}
		if _, err := ParseInvitation(text[:i]); !errors.Is(err, ErrInvitation) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
	for what, tt := range map[string]struct{ line, want string }{
		"later":    {strings.Replace(text, "invite-1-", "invite-2-", 1), "upgrade"},
		"mistyped": {text[:40] + "-_-_" + text[44:], "mistyped"},
		"a key":    {v.Inviter, "bulkhead invite"},
		"empty":    {"", "bulkhead invite"},
		"long":     {strings.Repeat("x", 5000), "limit 4096"},
	} {
		if _, err := ParseInvitation(tt.line); !errors.Is(err, bulkhead.ErrMalformed) ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", what, err, tt.want)
		}
	}
	for what, change := range map[string]func(*Invitation){
		"no hub":       func(v *Invitation) { v.Hubs = nil },
		"nine hubs":    func(v *Invitation) { v.Hubs = strings.Split("a:1 b:1 c:1 d:1 e:1 f:1 g:1 h:1 i:1", " ") },
		"no port":      func(v *Invitation) { v.Hubs = []string{"alice.example.com"} },
		"a user":       func(v *Invitation) { v.Hubs = []string{"me@alice.example.com:1"} },
		"control":      func(v *Invitation) { v.Name = "a\x1b[2J" },
		"long name":    func(v *Invitation) { v.Name = strings.Repeat("n", 65) },
		"long ago":     func(v *Invitation) { v.Expires = time.Unix(-1, 0) },
		"not a key":    func(v *Invitation) { v.Inviter = "U" },
		"spaced group": func(v *Invitation) { v.Group = "a\nb" },
	} {
		v := *v
		change(&v)
		if text, err := v.Line(); !errors.Is(err, bulkhead.ErrMalformed) && what != "not a key" || err == nil {
			t.Errorf("%s: line %q, %v", what, text, err)
		}
	}
}

// FuzzParseInvitation checks that every accepted line is the only line of its invitation.
func FuzzParseInvitation(f *testing.F) {
	v := sampleInvitation(f)
	f.Add(line(f, v))
	v.Name, v.Group, v.Hubs = "", "mail", v.Hubs[:1]
	f.Add(line(f, v))
	f.Add("bulkhead-invite-2-AAAA")
	f.Add("bulkhead-invite-1-")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ParseInvitation(text)
		if err != nil {
			if !errors.Is(err, ErrInvitation) {
				t.Fatal(err)
			}
			return
		}
		if again, err := v.Line(); err != nil || again != strings.Join(strings.Fields(text), "") {
			t.Fatalf("%q, %v", again, err)
		}
	})
}

// FuzzInvitationBody does the same behind the checksum, where chance does not get.
func FuzzInvitationBody(f *testing.F) {
	v := sampleInvitation(f)
	f.Add(bytes.Repeat([]byte{1}, 80))
	f.Add(append(bytes.Repeat([]byte{0}, 56), 1, 0, 0, 1, 3, 'a', ':', '1'))
	f.Fuzz(func(t *testing.T, body []byte) {
		v = new(Invitation)
		if err := v.parse(body); err != nil {
			return
		}
		text := line(t, v)
		again, err := ParseInvitation(text)
		if err != nil || !reflect.DeepEqual(again, v) {
			t.Fatalf("%+v, %v; want %+v", again, err, v)
		}
	})
}

// FuzzOpenRequest checks that only bytes sealed by a holder of the line and of the key are a
// request.
func FuzzOpenRequest(f *testing.F) {
	v := sampleInvitation(f)
	joiner := newIdentityOf(f)
	box, private, err := SealRequest(v, joiner, "bob", v.Expires)
	if err != nil {
		f.Fatal(err)
	}
	q, _, err := OpenRequest(v.Secret, v.ID(), box)
	if err != nil || q.Key != joiner.ID() || q.Name != "bob" || !q.Clock.Equal(v.Expires) {
		f.Fatalf("%+v, %v", q, err)
	}
	if _, _, err := OpenRequest([SecretBytes]byte{9}, v.ID(), box); !errors.Is(err, errSealed) {
		f.Errorf("opened with another secret: %v", err)
	}
	reply, err := sealReply(v.Secret, v.ID(), &q, &pairReply{State: PairAccepted,
		Secret: enginetest.Secret[:]})
	if err != nil {
		f.Fatal(err)
	}
	if r, err := openReply(v, private, joiner.ID(), reply); err != nil || r.State != PairAccepted ||
		!bytes.Equal(r.Secret, enginetest.Secret[:]) {
		f.Fatalf("%+v, %v", r, err)
	}
	other := *v
	other.Network++
	if _, err := openReply(&other, private, joiner.ID(), reply); err == nil {
		f.Error("the secret of another network was taken")
	}
	f.Add(box, reply)
	f.Add([]byte{}, []byte(`{"why":"no"}`))
	f.Fuzz(func(t *testing.T, in, out []byte) {
		// The fuzzing processes have sealed one each.
		if q, _, err := OpenRequest(v.Secret, v.ID(), in); err == nil && (q.Name != "bob" ||
			!q.Clock.Equal(v.Expires)) {
			t.Errorf("a forged request was taken: %x", in)
		}
		if r, err := openReply(v, private, joiner.ID(), out); err == nil && r.State != PairRefused &&
			!bytes.Contains(out, []byte("box")) {
			t.Errorf("a forged reply was taken: %q", out)
		}
	})
}

// newIdentityOf returns a new identity in a folder of the test.
func newIdentityOf(t testing.TB) *Identity {
	t.Helper()
	id, err := OpenIdentity(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return id
}
