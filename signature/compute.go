package signature

import (
	"slices"
	"sync"
	"sync/atomic"

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
	// Workers is how many goroutines share the work on one message; below 2 it
	// is the caller's alone.
	Workers int
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
	families := []func() []bulkhead.Signature{
		c.family(func() []bulkhead.Signature { return m.own(texts, opts) }, bulkhead.Exact, bulkhead.Near),
		// The schemes of other clearinghouses: one line each.
		c.family(func() []bulkhead.Signature { return Razor(m.Raw) }, bulkhead.RazorE4, bulkhead.RazorE8),
		c.family(func() []bulkhead.Signature { return Pyzor(m.Raw) }, bulkhead.PyzorDigest),
		c.family(func() []bulkhead.Signature { return dccContent(m.Raw, opts.DCC) }, bulkhead.DCCBody, bulkhead.DCCFuz1, bulkhead.DCCFuz2),
		c.family(func() []bulkhead.Signature { return rspamdContent(texts, opts) }, bulkhead.RspamdText, bulkhead.RspamdShingle),
	}
	for _, sigs := range inParallel(families, opts.Workers) {
		c.add(sigs)
	}
	return c.sigs
}

// own returns the signatures of the two schemes of this house.
func (m *Message) own(texts *visibleTexts, opts Options) []bulkhead.Signature {
	s := m.skeletonOf(texts)
	sigs := m.exact(s)
	if !slices.Contains(opts.Skip, bulkhead.Near) {
		sigs = append(sigs, newNearKey(opts.Key).near(s)...)
	}
	return sigs
}

// inParallel calls the functions, nil ones excepted, from as many goroutines as
// wanted, and returns their results in the same order. A panic in one of them
// comes out here.
func inParallel[T any](calls []func() T, workers int) []T {
	results := make([]T, len(calls))
	var next atomic.Int32
	var panicked atomic.Pointer[any]
	work := func() {
		defer func() {
			if p := recover(); p != nil {
				panicked.Store(&p)
			}
		}()
		for i := int(next.Add(1)) - 1; i < len(calls); i = int(next.Add(1)) - 1 {
			if calls[i] != nil {
				results[i] = calls[i]()
			}
		}
	}
	var others sync.WaitGroup
	for range workers - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	if p := panicked.Load(); p != nil {
		panic(*p)
	}
	return results
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

// family returns compute if any of its schemes is wanted, else nil.
func (c *collector) family(compute func() []bulkhead.Signature, schemes ...bulkhead.Scheme) func() []bulkhead.Signature {
	if slices.ContainsFunc(schemes, c.wants) {
		return compute
	}
	return nil
}

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
				whole.take(s)
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
	mu    sync.Mutex
	texts [][]byte
}

// of returns the visible text of a part.
func (v *visibleTexts) of(part int) []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
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
