package mesh

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/replica"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// FuzzFiles checks that any content of a file of the mesh folder is refused or read. Values that
// are read are valid, and the same after being written and read again.
func FuzzFiles(f *testing.F) {
	names := []string{member.PeersFile, member.StateFile, replica.HeardFile, member.RotationFile, member.StruckFile,
		member.InvitationsFile}
	key := wire.Public{1, 2, 3}
	for which := range names {
		for _, text := range []string{"", "{}", "[]", "null", "[null]", `[{"id":"` + key.ID() + `","weight":0.5}]`,
			`[{"id":"` + key.ID() + `","weight":7}]`,
			`{"from":"x","secret":"AAAA","void":["AA=="]}`, `["` + key.ID() + `"]`, `[{"secret":"AA==","uses":-1}]`,
			`{"incarnation":18446744073709551615}`, "{damaged"} {
			f.Add([]byte(text), uint8(which))
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte, which uint8) {
		name := names[int(which)%len(names)]
		path := filepath.Join(dir, name)
		defer os.Remove(path)
		read := func(b []byte) (v any, err error) {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			switch name {
			case member.PeersFile:
				var list []*member.Peer
				if list, err = member.LoadPeers(dir); err == nil {
					for _, p := range list {
						if member.CheckPeer(p.Name, p.Weight) != nil || p.ID != p.Key.ID() {
							t.Errorf("a peer that cannot be: %+v", p)
						}
					}
				}
				v = list
			case member.StateFile:
				v, err = member.LoadState(dir)
			case replica.HeardFile:
				v, err = replica.ReadHeard(dir)
			case member.RotationFile:
				var r member.Rotation
				if r, err = member.ReadRotation(dir); err == nil && !r.Valid() {
					t.Errorf("a change of a secret that cannot be: %+v", r)
				}
				v = r
			case member.StruckFile:
				v, err = member.ReadStruck(dir)
			case member.InvitationsFile:
				v, err = member.ReadInvitations(dir)
			}
			return v, err
		}
		first, err := read(b)
		if err != nil {
			return
		}
		written, err := json.Marshal(first)
		if err != nil {
			return // a time beyond the year 9999, which is never written
		}
		again, err := read(written)
		if err != nil {
			t.Fatalf("%s: %q is read, and written as %q, which is not: %v", name, b, written, err)
		}
		if rewritten, err := json.Marshal(again); err != nil || !reflect.DeepEqual(rewritten, written) {
			t.Errorf("%s: %q, then %q, %v", name, written, rewritten, err)
		}
	})
}
