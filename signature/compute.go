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
	whole := &skeleton{}
	recipient := recipientWords(m.To)
	for _, attachments := range []bool{false, true} {
		parts := make([]*skeleton, len(m.Parts))
		for i := len(m.Parts) - 1; i >= 0; i-- {
			p := &m.Parts[i]
			if p.IsText() && p.Attachment == attachments && !m.superseded(i, parts) {
				f := folder{recipient: recipient}
				f.add(p.visible(), p.embedded)
				parts[i] = &f.skeleton
			}
		}
		for _, s := range parts {
			if s != nil {
				whole.join(s)
			}
		}
		if len(whole.words)+len(whole.quoted) > 0 {
			break
		}
	}
	return whole
}

// superseded reports whether a later alternative to part i shows the same text
// with at least a few words. parts holds the skeletons of the later parts.
func (m *Message) superseded(i int, parts []*skeleton) bool {
	p := &m.Parts[i]
	if p.alternative == 0 {
		return false
	}
	for j := i + 1; j < len(m.Parts); j++ {
		q := &m.Parts[j]
		if q.alternative == p.alternative && q.branch > p.branch && q.Type != "text/calendar" && parts[j] != nil &&
			len(parts[j].words)+len(parts[j].quoted) >= nearMinWords {
			return true
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
