package paper

import (
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/bitset"
	"github.com/bulkhead-mail/bulkhead/internal/codec"
)

// writeFamily writes a hash family: kind, partitioned, m, k, then the pairs c, d of a universal
// family or the key of a keyed one.
func writeFamily(p *codec.Writer, f *Family, public bool) {
	p.Uint8(uint8(f.kind))
	p.Bool(f.parts)
	p.Uint64(f.m)
	p.Uint8(uint8(f.k))
	switch f.kind {
	case FamilyUniversal:
		p.Words(f.c)
		p.Words(f.d)
	case FamilyKeyed:
		codec.WriteSecret(p, f.secret, public)
	}
}

// readFamily reads the output of writeFamily.
func readFamily(p *codec.Reader, known []filter.Secret) (f Family, public bool) {
	kind, parts := FamilyKind(p.Uint8()), p.Bool()
	m, k := p.Uint64(), int(p.Uint8())
	if p.Err != nil {
		return Family{}, false
	}
	err := bitset.Check(m, k)
	switch {
	case err != nil:
	case kind == FamilyUniversal:
		c, d := p.Words(uint64(k)), p.Words(uint64(k))
		if p.Err == nil {
			f, err = universalFrom(m, c, d)
		}
	case kind == FamilyMD5, kind == FamilySHA1:
		f, err = chunked(kind, m, k)
	case kind == FamilyKeyed:
		var s filter.Secret
		s, public = codec.ReadSecret(p, known)
		f, err = Keyed(s, m, k)
	default:
		p.Fail("hash family of kind %d", kind)
	}
	if err == nil && parts && p.Err == nil {
		f, err = f.Partitioned()
	}
	if err != nil {
		p.Fail("%v", err)
	}
	if p.Err != nil {
		return Family{}, false
	}
	return f, public
}
