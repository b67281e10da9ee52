package mail

import (
	"bytes"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// TestWithMessage checks that Read returns the message of its context for the same bytes only.
func TestWithMessage(t *testing.T) {
	raw := append([]byte("From ann@example.com Sat Nov 28 08:00:00 2026\n"), mailtest.Plain("text\n")...)
	m := mailtest.Must(Read(t.Context(), raw))
	ctx := WithMessage(t.Context(), m)
	if again := mailtest.Must(Read(ctx, m.Raw)); again != m {
		t.Error("the message was read again")
	}
	for name, other := range map[string][]byte{
		"equal bytes": bytes.Clone(m.Raw), "fewer bytes": m.Raw[:len(m.Raw)-1], "the mailbox line": raw,
	} {
		if read := mailtest.Must(Read(ctx, other)); read == m {
			t.Errorf("%s: Read returned the message of the context", name)
		}
	}
	bare := mailtest.Must(Read(t.Context(), []byte("From ann@example.com\n")))
	if again, err := Read(WithMessage(t.Context(), bare), bare.Raw); err != nil || again != bare {
		t.Errorf("a message of a mailbox line alone: %v", err)
	}
	if again := mailtest.Must(Read(t.Context(), m.Raw)); again == m {
		t.Error("Read returned a message that its context does not have")
	}
}
