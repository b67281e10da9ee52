package keys

import (
	"errors"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// TestPast checks that for every key made, its forms under former secrets are known, and are
// what a maker with that secret alone makes.
func TestPast(t *testing.T) {
	now, before, first := filter.Secret{3}, filter.Secret{2}, filter.Secret{1}
	s := NewSecrets(now, before, first)
	m := s.Maker()
	made := all(m)
	for epoch, secret := range s.All {
		want := all(Maker{Secret: secret})
		for what, k := range made {
			if len(what) >= 5 && what[len(what)-5:] == "voice" ||
				len(what) >= 9 && what[:9] == "recipient" || what == "another recipient" {
				continue // marks, and keys of the open generation alone
			}
			if got := m.At(epoch, k); got != want[what] {
				t.Errorf("%s in epoch %d: %v, want %v", what, epoch, got, want[what])
			}
		}
	}
	sig := bulkhead.MustSignature(bulkhead.Exact, []byte("text"))
	k := m.Base(&sig)
	other := s.Maker()
	if other.At(1, k) != k {
		t.Error("a maker knows what a key was that it has not made")
	}
	other.Adopt(m.Past)
	if want := (Maker{Secret: before}).Base(&sig); other.At(1, k) != want {
		t.Error("what was adopted is not known")
	}
	m.Forget()
	if m.At(1, k) != k {
		t.Error("what was forgotten is known")
	}
	if one := (Maker{Secret: now}); one.At(1, k) != k {
		t.Error("a maker of one secret moves keys")
	}
}

func TestSecrets(t *testing.T) {
	s := NewSecrets(filter.Secret{2}, filter.Secret{1}, filter.Secret{2}, filter.Secret{1})
	if s.Check() != nil || len(s.All) != 2 || s.All[1] != (filter.Secret{1}) {
		t.Error(s)
	}
	if !s.Knows(filter.Secret{1}.ID()) || s.Knows(filter.Secret{3}.ID()) {
		t.Error("wrong secrets are known")
	}
	var many []filter.Secret
	for i := range byte(MaxSecrets) {
		many = append(many, filter.Secret{10 + i})
	}
	if err := NewSecrets(filter.Secret{1}, many...).Check(); err != nil {
		t.Errorf("one more than may have counts, while the secret changes: %v", err)
	}
	if err := NewSecrets(filter.Secret{1}, append(many, filter.Secret{2})...).Check(); !errors.Is(err,
		bulkhead.ErrOverLimit) {
		t.Errorf("two more: %v", err)
	}
	if m := (&Secrets{All: s.All[:1], IDs: s.IDs[:1]}).Maker(); m.Past != nil {
		t.Error("a network of one secret has a past")
	}
}

// TestSharing: counts are shared under the present secret, and under the secrets that the network
// had before it without a break.
func TestSharing(t *testing.T) {
	a, b, c := filter.Secret{1}, filter.Secret{2}, filter.Secret{3}
	for i, tt := range []struct {
		past, former, want []filter.Secret
	}{
		{nil, nil, nil},
		{nil, []filter.Secret{b}, nil},
		{[]filter.Secret{b, c}, nil, nil},
		{[]filter.Secret{b, c}, []filter.Secret{b}, []filter.Secret{b}},
		{[]filter.Secret{b, c}, []filter.Secret{c, b}, []filter.Secret{b, c}},
		{[]filter.Secret{b, c}, []filter.Secret{c}, nil},
		{[]filter.Secret{a, b}, []filter.Secret{a, b}, []filter.Secret{b}}, // what a crash leaves
	} {
		s := NewSecrets(a, tt.past...)
		if got := s.Former(); len(got) != 0 {
			t.Errorf("%d: %v is shared though nobody said so", i, got)
		}
		s = s.Sharing(tt.former)
		if got := s.Former(); !slices.Equal(got, tt.want) {
			t.Errorf("%d: former %v, want %v", i, got, tt.want)
		}
		for _, x := range []filter.Secret{a, b, c} {
			if got, want := s.Shares(x.ID()), x == a || slices.Contains(tt.want, x); got != want {
				t.Errorf("%d: secret %v is shared: %v, want %v", i, x[:1], got, want)
			}
		}
	}
}
