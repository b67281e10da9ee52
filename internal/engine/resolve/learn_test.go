package resolve

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/engine/learned"
	"github.com/bulkhead-mail/bulkhead/internal/lesson"
)

// TestPerson checks in whose mail a message was: the first recipient's, else the reporter's.
func TestPerson(t *testing.T) {
	b := newBooks(t)
	book := learned.New(learned.Options{Bytes: 1 << 20})
	b.r.opts.Learned = book
	for _, tt := range []struct {
		recipients []string
		name       string
		want       lesson.Person
	}{
		{[]string{"ann"}, "a", book.Person("ann", true)}, {[]string{"ann", "bob"}, "a", book.Person("ann", true)},
		{nil, "a", book.Person("a", false)}, {nil, "", 0},
	} {
		m := &Message{}
		m.Recipients = tt.recipients
		if got := b.r.person(m, tt.name); got != tt.want {
			t.Errorf("recipients %q, reporter %q: person %x, want %x", tt.recipients, tt.name, got, tt.want)
		}
	}
}
