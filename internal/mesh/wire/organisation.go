package wire

import (
	"fmt"
	"slices"
)

// An Organisation identifies a source of counts by the first bytes of the public key of its node.
// An aggregate, a node that publishes the sum of several organisations, lists all of them in every
// head, so that none is counted twice.
type Organisation [8]byte

// MaxOrganisations bounds the organisations of one aggregate.
const MaxOrganisations = 4096

func appendOrganisations(b []byte, list []Organisation) []byte {
	for _, o := range list {
		b = append(b, o[:]...)
	}
	return b
}

// parseOrganisations reads the output of appendOrganisations. Its error wraps errMessage.
func parseOrganisations(b []byte) (list []Organisation, err error) {
	const size = len(Organisation{})
	if len(b)%size != 0 || len(b)/size > MaxOrganisations {
		return nil, fmt.Errorf("%w: organisations of %d bytes, limit %d of %d", errMessage, len(b), MaxOrganisations, size)
	}
	for ; len(b) > 0; b = b[size:] {
		o := Organisation(b)
		if n := len(list); n > 0 && slices.Compare(list[n-1][:], o[:]) >= 0 {
			return nil, fmt.Errorf("%w: organisations are out of order", errMessage)
		}
		list = append(list, o)
	}
	return list, nil
}

// CompareOrganisations orders organisations by their bytes, as a head lists them.
func CompareOrganisations(a, b Organisation) int { return slices.Compare(a[:], b[:]) }
