package signature

import (
	"github.com/bulkhead-mail/bulkhead"
)

// Options say how signatures are computed. The zero Options are valid.
type Options struct {
	// Key is the secret of the network: only nodes with the same key find each
	// other's bulkhead/near signatures, and nobody without it can foresee which
	// words of a message they rest on.
	Key [16]byte
}

// Compute reads raw and returns all its signatures, none twice. A message that
// has none (see the package doc) gives an empty slice. Its errors are those of
// [ReadMessage].
func Compute(raw []byte, opts Options) ([]bulkhead.Signature, error) {
	m, err := ReadMessage(raw)
	if err != nil {
		return nil, err
	}
	return m.Signatures(opts), nil
}

// Signatures returns all signatures of m, none twice.
func (m *Message) Signatures(opts Options) []bulkhead.Signature {
	s := m.skeleton()
	var sigs []bulkhead.Signature
	sigs = append(sigs, m.exact(s)...)
	sigs = append(sigs, newNearKey(opts.Key).near(s)...)
	return sigs
}

// skeleton folds the visible text of m: of each text part that is not an
// attachment, and of alternatives the last one that has enough words. Without
// any words, text attachments are looked at.
func (m *Message) skeleton() *skeleton {
	f := folder{recipient: recipientWords(m.To)}
	for _, attachments := range []bool{false, true} {
		for i := range m.Parts {
			p := &m.Parts[i]
			if p.IsText() && p.Attachment == attachments && !m.superseded(i) {
				f.add(p.visible(), p.embedded)
			}
		}
		if len(f.words)+len(f.quoted) > 0 {
			break
		}
	}
	return &f.skeleton
}

// superseded reports whether a later alternative shows the same text with at
// least a few words.
func (m *Message) superseded(i int) bool {
	p := &m.Parts[i]
	if p.alternative == 0 {
		return false
	}
	for j := i + 1; j < len(m.Parts); j++ {
		q := &m.Parts[j]
		if q.alternative == p.alternative && q.branch > p.branch && q.IsText() && !q.Attachment && q.Type != "text/calendar" {
			var f folder
			f.add(q.visible(), q.embedded)
			if len(f.words)+len(f.quoted) >= nearMinWords {
				return true
			}
		}
	}
	return false
}

// visible returns the text of a text part as its reader sees it.
func (p *Part) visible() []byte {
	if p.HTML {
		return appendVisible(nil, p.Text)
	}
	return []byte(p.Text)
}

// appendSignature appends the signature of a sum; without a sum it does nothing.
func appendSignature(sigs []bulkhead.Signature, scheme bulkhead.Scheme, sum []byte) []bulkhead.Signature {
	if sig, err := bulkhead.NewSignature(scheme, sum); err == nil {
		sigs = append(sigs, sig)
	}
	return sigs
}
