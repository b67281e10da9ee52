package signature

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead"
)

// Options say how signatures are computed. The zero Options are valid.
type Options struct {
	// Key is the secret of the network: only nodes with the same key find each
	// other's bulkhead/near signatures, and nobody without it can foresee which
	// words of a message they rest on.
	Key [16]byte
	// DCC says what is known for the DCC checksums beside the message.
	DCC DCCOptions
	// Rspamd computes rspamd/text and rspamd/shingle; nil stands for rspamd's
	// default keys and mumhash. Only clients whose rule has the same keys and
	// algorithm find these signatures.
	Rspamd *RspamdHasher
	// RspamdPolicy says which parts of a message they are of. Attachments count
	// whatever their type.
	RspamdPolicy RspamdPolicy
	// Skip lists schemes that are not wanted; nil computes all.
	Skip []bulkhead.Scheme
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

// Signatures returns all signatures of m, none twice: those of the message's
// content. Checksums of its sender, path or identifiers are no part of it.
func (m *Message) Signatures(opts Options) []bulkhead.Signature {
	c := collector{skip: opts.Skip}
	texts := &visibleTexts{m: m}
	if c.wants(bulkhead.Exact) || c.wants(bulkhead.Near) {
		s := m.skeletonOf(texts)
		c.add(m.exact(s))
		if c.wants(bulkhead.Near) {
			c.add(newNearKey(opts.Key).near(s))
		}
	}
	// The schemes of other clearinghouses: one line each.
	if c.wants(bulkhead.RazorE4) || c.wants(bulkhead.RazorE8) {
		c.add(Razor(m.Raw))
	}
	if c.wants(bulkhead.PyzorDigest) {
		c.add(Pyzor(m.Raw))
	}
	if c.wants(bulkhead.DCCBody) || c.wants(bulkhead.DCCFuz1) || c.wants(bulkhead.DCCFuz2) {
		c.add(dccContent(m.Raw, opts.DCC))
	}
	if c.wants(bulkhead.RspamdText) || c.wants(bulkhead.RspamdShingle) {
		c.add(rspamdContent(texts, opts))
	}
	return c.sigs
}

// dccContent returns the DCC checksums of the body.
func dccContent(raw []byte, opts DCCOptions) []bulkhead.Signature {
	var sigs []bulkhead.Signature
	for _, sum := range DCC(raw, opts) {
		switch sum.Type {
		case DCCTypeBody, DCCTypeFuz1, DCCTypeFuz2:
			sigs = appendSignature(sigs, sum.Type.Scheme(), sum.Sum[:])
		}
	}
	return sigs
}

// defaultRspamd has the keys of a rule that sets none.
var defaultRspamd = NewRspamdHasher("", "", RspamdMumHash)

// maxRspamdTexts is how many parts of a message give it rspamd signatures.
const maxRspamdTexts = 16

// rspamdContent returns the digests by which rspamd's fuzzy_check knows the
// parts of m, and the bands of the first text that has shingles.
func rspamdContent(texts *visibleTexts, opts Options) []bulkhead.Signature {
	h := opts.Rspamd
	if h == nil {
		h = defaultRspamd
	}
	policy := opts.RspamdPolicy
	policy.AllTypes = true
	hashes := h.hashes(texts, policy, rspamdWordLimit)
	var sigs []bulkhead.Signature
	var shingles *[RspamdShingles]uint64
	for i := range hashes[:min(len(hashes), maxRspamdTexts)] {
		sigs = append(sigs, hashes[i].Signature())
		if shingles == nil {
			shingles = hashes[i].Shingles
		}
	}
	if shingles != nil {
		sigs = AppendRspamdBands(sigs, shingles, RspamdVotes)
	}
	return sigs
}

// A collector gathers wanted signatures, none twice.
type collector struct {
	skip []bulkhead.Scheme
	sigs []bulkhead.Signature
}

func (c *collector) wants(scheme bulkhead.Scheme) bool { return !slices.Contains(c.skip, scheme) }

func (c *collector) add(sigs []bulkhead.Signature) {
	for _, sig := range sigs {
		if c.wants(sig.Scheme()) && !slices.Contains(c.sigs, sig) {
			c.sigs = append(c.sigs, sig)
		}
	}
}

// skeleton folds the visible text of m: of each text part that is not an
// attachment, and of alternatives the last one that has enough words. Without
// any words, text attachments are looked at.
func (m *Message) skeleton() *skeleton { return m.skeletonOf(&visibleTexts{m: m}) }

func (m *Message) skeletonOf(texts *visibleTexts) *skeleton {
	whole := &skeleton{}
	recipient := recipientWords(m.To)
	for _, attachments := range []bool{false, true} {
		parts := make([]*skeleton, len(m.Parts))
		for i := len(m.Parts) - 1; i >= 0; i-- {
			p := &m.Parts[i]
			if p.IsText() && p.Attachment == attachments && !m.superseded(i, parts) {
				f := folder{recipient: recipient}
				f.add(texts.of(i), p.embedded)
				parts[i] = &f.skeleton
			}
		}
		for _, s := range parts {
			if s != nil {
				whole.join(s)
			}
		}
		if !whole.empty() {
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
			parts[j].words.len()+parts[j].quoted.len() >= nearMinWords {
			return true
		}
	}
	return false
}

// visibleTexts holds the visible texts of the parts of m that were asked for.
// What it returns must not be changed.
type visibleTexts struct {
	m     *Message
	texts [][]byte
}

// of returns the visible text of a part.
func (v *visibleTexts) of(part int) []byte {
	if v.texts == nil {
		v.texts = make([][]byte, len(v.m.Parts))
	}
	if v.texts[part] == nil {
		v.texts[part] = v.m.Parts[part].visible()
	}
	return v.texts[part]
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
