package mail

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// FuzzRead checks what every reading of any bytes must satisfy.
func FuzzRead(f *testing.F) {
	for _, raw := range mailtest.Seeds() {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		m, err := Read(t.Context(), raw)
		if err != nil {
			if len(raw) > 0 || m != nil {
				t.Fatalf("Read of %d bytes: %v, message %v", len(raw), err, m != nil)
			}
			return
		}
		if !bytes.Equal(before, raw) {
			t.Fatal("the raw message was changed")
		}
		if len(m.Parts) == 0 || len(m.Parts) > maxParts || len(m.Damage) > maxDamage {
			t.Fatalf("%d parts, %d damages", len(m.Parts), len(m.Damage))
		}
		for _, p := range m.Parts {
			if !utf8.ValidString(p.Text) || bytes.IndexByte([]byte(p.Text), 0) >= 0 {
				t.Fatalf("text of a %s part is not clean UTF-8: %q", p.Type, p.Text)
			}
			if p.IsText() && p.Data != nil || !p.IsText() && p.Text != "" {
				t.Fatalf("%s part has %d bytes of text, %d of data", p.Type, len(p.Text), len(p.Data))
			}
		}
		texts := []string{m.Envelope, m.From, m.Sender, m.ReturnPath, m.ListID, m.MessageID, m.Subject, m.Date}
		texts = append(append(texts, m.To...), m.Damage...)
		for _, p := range m.Parts {
			texts = append(texts, p.Type, p.Name)
		}
		for _, s := range texts {
			if !utf8.ValidString(s) || bytes.IndexByte([]byte(s), 0) >= 0 {
				t.Fatalf("not clean UTF-8: %q", s)
			}
		}
	})
}
