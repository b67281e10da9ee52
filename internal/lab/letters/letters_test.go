package letters

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/signature"
	"github.com/bulkhead-mail/bulkhead/signature/mail"
)

// numbers yields 0 to n-1, and then err unless it is nil.
func numbers(n int, err error) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := range n {
			if !yield(i, nil) {
				return
			}
		}
		if err != nil {
			yield(0, err)
		}
	}
}

func TestRead(t *testing.T) {
	begun := 0
	begin := func(n int) *int { begun++; return new(int) }
	square := func(_ context.Context, n int, l *int) { *l = n * n }
	all, err := Read(t.Context(), numbers(500, nil), begin, square)
	if err != nil || len(all) != 500 {
		t.Fatalf("%d letters, %v", len(all), err)
	}
	for i, l := range all {
		if *l != i*i {
			t.Errorf("letter %d is %d, want %d", i, *l, i*i)
		}
	}
	broken := errors.New("broken")
	if all, err := Read(t.Context(), numbers(3, broken), begin, square); all != nil || !errors.Is(err, broken) {
		t.Errorf("a broken collection: %d letters, %v", len(all), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	begun = 0
	all, err = Read(ctx, numbers(1000, nil), func(n int) *int {
		if begun++; begun == 5 {
			cancel()
		}
		return new(int)
	}, square)
	if all != nil || !errors.Is(err, context.Canceled) || begun != 5 {
		t.Errorf("cancelled: %d letters of %d, %v", len(all), begun, err)
	}
}

// TestSigned checks that a note that nobody could report has no signature, whatever the name
// in its From.
func TestSigned(t *testing.T) {
	for raw, want := range map[string]bool{
		"From: Ann Example <a@b.example>\n\nhi\n":                                false,
		"From: Ann Example <a@b.example>\n\nhi, see http://offers.example/now\n": true,
	} {
		m, err := mail.Read(t.Context(), []byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		network := []bulkhead.Signature{bulkhead.NamedSignature(bulkhead.Network, "192.0.2.0/24")}
		sigs, err := Signed(t.Context(), m, network, signature.Options{})
		if err != nil || len(sigs) > 0 != want {
			t.Errorf("%q: %v, %v", raw, sigs, err)
		}
	}
}
