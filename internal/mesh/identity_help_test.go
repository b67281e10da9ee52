package mesh

import (
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
)

func idKey(id *member.Identity) []byte { k := id.Public(); return k[:] }

func hintBytes(id *member.Identity) []byte { h := id.Hint(); return h[:] }
