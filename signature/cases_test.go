package signature

import (
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

// TestCases checks messages that were once misread: each has the signatures of the schemes that are
// named in common with another message, its control. A message without a control has at least one
// signature of each scheme.
func TestCases(t *testing.T) {
	text := []bulkhead.Scheme{bulkhead.Near, bulkhead.Part}
	for _, c := range []struct {
		file, control string
		schemes       []bulkhead.Scheme
	}{
		{"01-owa-style-A.eml", "01-owa-style-control.eml", append(text, bulkhead.Link)},
		{"03-last-declaration.eml", "", []bulkhead.Scheme{bulkhead.Exact, bulkhead.Near}},
		{"04-encoded-filename-B.eml", "04-encoded-filename-control.eml", append(text, bulkhead.Link)},
		{"04-encoded-filename-Q.eml", "04-encoded-filename-control.eml", append(text, bulkhead.Link)},
		{"04-encoded-filename-two.eml", "04-encoded-filename-control.eml", append(text, bulkhead.Link)},
		{"06-uuencode.eml", "06-uuencode-control.eml", append(text, bulkhead.Exact, bulkhead.Link)},
		{"07-utf16-le.eml", "07-utf16-le-control.eml", append(text, bulkhead.Exact, bulkhead.Link)},
		{"16-calendar-app-ics.eml", "", []bulkhead.Scheme{bulkhead.Link}},
		{"16-calendar-octet.eml", "", []bulkhead.Scheme{bulkhead.Link}},
		{"17-eml-octet.eml", "17-eml-octet-control.eml", []bulkhead.Scheme{bulkhead.Exact, bulkhead.Near, bulkhead.Link}},
		{"19-noscript.eml", "", []bulkhead.Scheme{bulkhead.Link, bulkhead.Exact, bulkhead.Near}},
		{"20-subject-b64-padding.eml", "20-subject-b64-padding-dblpad-control.eml", []bulkhead.Scheme{bulkhead.Claim}},
		{"22-utf8-body-bom-A.eml", "22-utf8-body-bom-B.eml", append(text, bulkhead.Exact)},
	} {
		t.Run(c.file, func(t *testing.T) {
			of := func(file string) []bulkhead.Signature {
				return mailtest.Must(Compute(t.Context(), sharedtest.Case(t, file), Options{}))
			}
			got := of(c.file)
			want := got
			if c.control != "" {
				want = of(c.control)
			}
			for _, scheme := range c.schemes {
				pick := func(all []bulkhead.Signature) (picked []bulkhead.Signature) {
					for _, sig := range all {
						if sig.Scheme() == scheme {
							picked = append(picked, sig)
						}
					}
					return picked
				}
				if g, w := pick(got), pick(want); len(w) == 0 || !slices.Equal(g, w) {
					t.Errorf("%v: %v, want %v", scheme, g, w)
				}
			}
		})
	}
}
