package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// A shelf is a set with a store and a limit of memory.
type shelf struct {
	*Set
	t     *testing.T
	index uint64
	asked int // checkpoints
}

func newShelf(t *testing.T, bytes uint64, origins ...Origin) *shelf {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "data"), store.Options{Durability: store.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	s := &shelf{Set: newSet(t), t: t}
	s.opts.Store, s.opts.Bytes, s.opts.Checkpoint = st, bytes, func() { s.asked++ }
	s.SetOrigins(origins)
	return s
}

// images gives an origin images of an array with a number of keys of its own.
func (s *shelf) images(origin string, a Array, g filter.Geometry, keys int) {
	s.t.Helper()
	var image func(int) *arrays.Image
	var version uint64
	salt := uint64(len(origin)) << 40
	for _, c := range []byte(origin) {
		salt = salt*31 + uint64(c)<<32
	}
	all := make([]filter.Key, keys)
	for i := range all {
		all[i] = key(salt + uint64(i))
	}
	if a == ArrayCounts {
		c, err := arrays.NewCounting(g)
		if err != nil {
			s.t.Fatal(err)
		}
		c.SetGeneration(today)
		c.AddBatch(1, all, slices.Repeat([]uint32{1}, keys), nil)
		image, version = c.Image, c.Version()
	} else {
		b, err := arrays.NewBits(g)
		if err != nil {
			s.t.Fatal(err)
		}
		b.SetGeneration(today)
		b.SetBatch(1, all, nil)
		image, version = b.Image, b.Version()
	}
	for p := range g.Pages() {
		s.index++
		if err := take(s.Set, s.index, origin, Part{Array: a, Start: today, Geometry: g, Image: image(p).Append(nil),
			At: version}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// merge merges until nothing is left to do.
func (s *shelf) merge() {
	s.t.Helper()
	checkpoint, _ := s.checkpoint()
	for range 20 {
		select {
		case <-s.Wanted():
		default:
		}
		if err := s.Merge(s.t.Context(), func(f func()) { f() }, checkpoint); err != nil {
			s.t.Fatal(err)
		}
		if !s.Busy() {
			return
		}
	}
	s.t.Fatal("not settled")
}

var mergeGeometry = filter.Geometry{Kind: filter.Cells, Lines: filter.PageLines, K: 4, KeyID: 7}

func (s *shelf) groups() (sizes []int) {
	for _, m := range s.View().Merged {
		sizes = append(sizes, len(m.Origins()))
	}
	slices.Sort(sizes)
	return sizes
}

// capacity returns how many keys an array takes before the error passes a limit.
func capacity(g filter.Geometry, limit float64) (n uint64) {
	for step := uint64(1) << 20; step > 0; step /= 2 {
		if g.GhostError(n+step) <= limit {
			n += step
		}
	}
	return n
}

// TestFull checks that arrays are merged as long as the merged array keeps the allowed
// error, and no further.
func TestFull(t *testing.T) {
	lists := filter.Geometry{Kind: filter.Bitmap, Lines: filter.PageLines, K: 8, KeyID: 7}
	for _, tt := range []struct {
		array    Array
		geometry filter.Geometry
		limit    float64
		share    float64 // of what fits
		want     []int
	}{
		{ArrayCounts, mergeGeometry, MergedGhost, 0.19, []int{5}},
		{ArrayCounts, mergeGeometry, MergedGhost, 0.24, []int{4}},
		{ArrayCounts, mergeGeometry, MergedGhost, 0.45, []int{2, 2}},
		{ArrayCounts, mergeGeometry, MergedGhost, 0.55, nil},
		{ArraySpam, lists, 1e-4 / 8, 0.32, []int{2, 3}},
		{ArrayRevoked, lists, 1e-4 / 8, 0.45, []int{2, 2}},
		{ArraySpam, lists, 1e-4 / 8, 0.52, nil},
	} {
		var origins []Origin
		for i := range 5 {
			origins = append(origins, Origin{fmt.Sprint("o", i), 1})
		}
		s := newShelf(t, 1, origins...)
		n := int(tt.share * float64(capacity(tt.geometry, tt.limit)))
		for _, o := range origins {
			s.images(o.ID, tt.array, tt.geometry, n)
		}
		s.merge()
		if got := s.groups(); !slices.Equal(got, tt.want) {
			t.Errorf("%s, %v of what fits in each: merged are %v, want %v", tt.array, tt.share, got, tt.want)
		}
		for _, m := range s.View().Merged {
			if m.Ghost() > tt.limit {
				t.Errorf("%s: a merged array shows %v, limit %v", tt.array, m.Ghost(), tt.limit)
			}
		}
	}
}

// TestFewest checks that where not all arrays must leave the memory, those with the fewest
// keys leave, older before newer ones, and counts before lists.
func TestFewest(t *testing.T) {
	g := mergeGeometry
	s := newShelf(t, 0, Origin{"a", 1}, Origin{"b", 1}, Origin{"c", 1}, Origin{"d", 1})
	for i, o := range []string{"c", "a", "d", "b"} {
		s.images(o, ArrayCounts, g, 100*(i+1))
		s.images(o, ArraySpam, filter.Geometry{Kind: filter.Bitmap, Lines: g.Lines, K: 8, KeyID: 7}, 10)
	}
	total := s.Memory().Bytes
	s.opts.Bytes = total - 2*g.Bytes() + g.Bytes()/2
	s.merge()
	v := s.View()
	if len(v.Merged) != 1 || v.Merged[0].Array != ArrayCounts ||
		!slices.Equal(sorted(v.Merged[0].Origins()), []string{"a", "c", "d"}) {
		t.Errorf("merged are %v, want the three with the fewest counts", s.groups())
	}
	if got, limit := s.Memory().Bytes, s.opts.Bytes; got > limit {
		t.Errorf("%d bytes are taken, limit %d", got, limit)
	}
}

func sorted(x []string) []string {
	slices.Sort(x)
	return x
}

// TestRoom checks that a quarter of the memory is kept for the origins in equal parts, and
// that the rest goes to those who come first; an origin without weight has only its part.
func TestRoom(t *testing.T) {
	page := mergeGeometry.Bytes()
	for _, tt := range []struct {
		name   string
		limit  uint64 // pages; of 32 two are kept for each of four origins
		held   string // who has arrays of a page
		origin string
		most   uint64 // pages that there is room for
	}{
		{"nothing is held", 32, "", "a", 32 - 3*2},
		{"what another holds is a part of what is kept for it", 32, "b", "a", 32 - 3*2},
		{"all that is kept for it", 32, "bb", "a", 32 - 3*2},
		{"more than is kept for it", 32, "bbb", "a", 32 - 2*2 - 3},
		{"its own is taken", 32, "aaa", "a", 32 - 3*2 - 3},
		{"weight 0", 32, "", "z", 2},
		{"weight 0, and holds something", 32, "z", "z", 1},
		{"weight 0, and has its part", 32, "zz", "z", 0},
		{"nothing is kept for a stranger", 32, "", "x", 32 - 4*2},
	} {
		s := newShelf(t, tt.limit*page, Origin{"a", 1}, Origin{"b", 1}, Origin{"z", 0}, Origin{"y", 0.5})
		s.opts.Store = nil
		lists := mergeGeometry
		lists.Kind, lists.K = filter.Bitmap, 8
		for i, o := range tt.held {
			a, g := []Array{ArrayRevoked, ArraySpam, ArrayCounts}[i], lists
			if a == ArrayCounts {
				g = mergeGeometry
			}
			s.images(string(o), a, g, 10)
		}
		for asks := uint64(1); asks < 40; asks++ {
			need := Need{Array: ArrayCounts, Start: today + 1, Geometry: mergeGeometry}
			need.Geometry.Lines *= asks
			need.Pages = need.Geometry.Pages()
			if now, later := s.Room(tt.origin, need); now != (asks <= tt.most) || later {
				t.Errorf("%s: room for %d pages: %v, %v, want it up to %d", tt.name, asks, now, later, tt.most)
			}
		}
		s.opts.Bytes = 0
		if now, _ := s.Room(tt.origin, Need{Array: ArrayCounts, Start: today + 1, Geometry: mergeGeometry}); !now {
			t.Errorf("%s: no room, and there is no limit", tt.name)
		}
	}
}

// TestRoomOfPages checks that an array takes memory as its pages come, and that parts for an
// array that has them all, or is not in memory, need no room.
func TestRoomOfPages(t *testing.T) {
	g := mergeGeometry
	g.Lines *= 16
	page, empty := uint64(arrays.PageBytes), arrays.SparseBytes(g)
	s := newShelf(t, 0, Origin{"a", 1})
	s.opts.Store = nil
	fits := func(n Need) uint64 { // the least limit, in pages beside an empty array
		n.Array, n.Start, n.Geometry = ArrayCounts, today, g
		for pages := range uint64(40) {
			s.opts.Bytes = 1 + empty + pages*page
			if now, _ := s.Room("a", n); now {
				return pages
			}
		}
		return 40
	}
	for _, tt := range []struct {
		pages int
		want  uint64
	}{{0, 1}, {1, 1}, {7, 7}, {8, 16}, {9, 16}, {16, 16}} {
		if got := fits(Need{Pages: tt.pages}); got != tt.want {
			t.Errorf("the first %d pages need %d pages of memory, want %d", tt.pages, got, tt.want)
		}
	}
	from, err := arrays.NewCounting(g)
	if err != nil {
		t.Fatal(err)
	}
	from.SetGeneration(today)
	add := func(pages ...uint64) *arrays.Round {
		r := from.NewRound()
		for _, p := range pages {
			keys, ones, before := []filter.Key{{Hi: p*(math.MaxUint64/16) + math.MaxUint64/32, Lo: p}},
				[]uint32{1}, make([]uint32, 1)
			s.index++
			from.AddBatch(s.index, keys, ones, before)
			r.Record(keys, ones, before)
		}
		r.Close()
		return r
	}
	for _, tt := range []struct {
		pages []uint64
		want  uint64 // with what is there; 0 if nothing comes to that
	}{{[]uint64{3}, 1}, {[]uint64{3}, 0}, {[]uint64{3, 5}, 2}, {[]uint64{0, 1, 2, 4}, 6}, {[]uint64{3},
		0}, {[]uint64{8, 9}, 16}, {[]uint64{15}, 0}} {
		r := add(tt.pages...)
		if got := fits(Need{Round: r}); got != tt.want {
			t.Errorf("a round of the pages %v needs %d pages of memory, want %d", tt.pages, got, tt.want)
		}
		s.opts.Bytes = 0
		s.index++
		if err := take(s.Set, s.index, "a", Part{Array: ArrayCounts, Start: today, Geometry: g, Round: r.AppendBody(nil),
			From: r.From, To: r.To}); err != nil {
			t.Fatal(err)
		}
	}
	s.opts.Bytes = 1
	if now, _ := s.Room("a", Need{Array: ArrayCounts, Start: today, Geometry: g, Pages: 16}); !now {
		t.Error("no room for images of pages that are all here")
	}
}

// TestRoomByMerging checks that arrays are merged where there is no room, that there is room
// then, and that a need that can never be met is refused at once.
func TestRoomByMerging(t *testing.T) {
	g := mergeGeometry
	s := newShelf(t, 4*g.Bytes(), Origin{"a", 1}, Origin{"b", 1}, Origin{"c", 1})
	for _, o := range []string{"a", "b", "c"} {
		s.images(o, ArrayCounts, g, 100)
	}
	need := Need{Array: ArrayCounts, Start: today + 1, Geometry: g, Pages: 2}
	need.Geometry.Lines *= 2
	if now, later := s.Room("a", need); now || !later {
		t.Fatalf("%v, %v, want room later", now, later)
	}
	if len(s.Wanted()) == 0 || !s.Busy() {
		t.Error("nobody is told that arrays are to be merged")
	}
	s.merge()
	if now, later := s.Room("a", need); !now || later {
		t.Errorf("%v, %v after %v were merged, want room", now, later, s.groups())
	}
	// A round for an array that has left the memory takes no memory.
	for _, o := range s.View().Merged[0].Origins() {
		if now, _ := s.Room(o, Need{Array: ArrayCounts, Start: today, Geometry: g, Pages: 1}); !now {
			t.Errorf("no room for a round of %s, whose array is merged", o)
		}
	}
	need.Geometry.Lines *= 10
	need.Pages *= 10
	if _, later := s.Room("a", need); later {
		s.merge() // as far as merging can
	}
	if now, later := s.Room("a", need); now || later {
		t.Errorf("room for more than all memory: %v, %v", now, later)
	}
}

// offer sends images of an array as a peer does: a page when there is room for it. It
// reports whether all were taken.
func (s *shelf) offer(origin string, a Array, c interface {
	Version() uint64
	Geometry() filter.Geometry
	AppendPage([]byte, int) []byte
}) bool {
	s.t.Helper()
	for p := range c.Geometry().Pages() {
		need := Need{Array: a, Start: today, Geometry: c.Geometry(), Pages: 1}
		now, later := s.Room(origin, need)
		for range 10 {
			if now || !later {
				break
			}
			s.merge()
			now, later = s.Room(origin, need)
		}
		if !now {
			return false
		}
		s.index++
		if err := take(s.Set, s.index, origin, Part{Array: a, Start: today, Geometry: c.Geometry(),
			Image: c.AppendPage(nil, p), At: c.Version()}); err != nil {
			s.t.Fatal(err)
		}
		if limit := s.opts.Bytes + c.Geometry().Bytes(); s.Memory().Bytes >= limit {
			s.t.Fatalf("%d bytes are taken, limit %d and less than one array", s.Memory().Bytes, s.opts.Bytes)
		}
	}
	s.merge()
	return true
}

// TestRoomForOne checks that memory for one array is enough for the arrays of all origins if they
// can be merged, and that other arrays are refused.
func TestRoomForOne(t *testing.T) {
	for _, tt := range []struct {
		array Array
		g     filter.Geometry
		share float64 // of the keys that a merged array may have, in each
		want  int     // origins that are taken
	}{
		{ArrayCounts, filter.Geometry{Kind: filter.Cells, Lines: 4 * filter.PageLines, K: 4, KeyID: 7}, 0.01, 8},
		{ArrayCounts, filter.Geometry{Kind: filter.Cells, Lines: 4 * filter.PageLines, K: 4, KeyID: 7}, 0.9, 1},
		{ArraySpam, filter.Geometry{Kind: filter.Bitmap, Lines: 4 * filter.PageLines, K: 8, KeyID: 7}, 0.01, 8},
		{ArraySpam, filter.Geometry{Kind: filter.Bitmap, Lines: 4 * filter.PageLines, K: 8, KeyID: 7}, 0.9, 1},
	} {
		var origins []Origin
		for i := range 8 {
			origins = append(origins, Origin{fmt.Sprint("o", i), 1})
		}
		s := newShelf(t, tt.g.Bytes()*5/4, origins...)
		keys, taken := int(tt.share*float64(s.mergedKeys(tt.g))), 0
		for i, o := range origins {
			all := make([]filter.Key, keys)
			for j := range all {
				all[j] = filter.Key{Hi: mixed(uint64(i)<<32 + uint64(j)), Lo: mixed(^(uint64(i)<<32 + uint64(j)))}
			}
			ok := false
			if tt.g.Kind == filter.Cells {
				c, err := arrays.NewCounting(tt.g)
				if err != nil {
					t.Fatal(err)
				}
				c.SetGeneration(today)
				c.AddBatch(1, all, slices.Repeat([]uint32{1}, keys), nil)
				ok = s.offer(o.ID, tt.array, c)
			} else {
				b, err := arrays.NewBits(tt.g)
				if err != nil {
					t.Fatal(err)
				}
				b.SetGeneration(today)
				b.SetBatch(1, all, nil)
				ok = s.offer(o.ID, tt.array, b)
			}
			if ok {
				taken++
			}
		}
		if m := s.Memory(); taken != tt.want || m.Bytes > m.Limit {
			t.Errorf("%s with %d keys in each: %d of 8 origins are taken, want %d; %+v", tt.array, keys, taken, tt.want, m)
		}
	}
}

// checkpoint returns a function that writes a checkpoint of the set, and where to find
// afterwards what it says of the replicas.
func (s *shelf) checkpoint() (write func(context.Context) error, stored *[]Stored) {
	stored = new([]Stored)
	return func(ctx context.Context) error {
		snapshot := s.Snapshot()
		var files []store.File
		*stored = snapshot.Origins(func(f func()) { f() }, func(name string, array pages.Array) {
			files = append(files, store.File{Name: name, Write: pages.Writer(array, func(f func()) { f() })})
		}, func(name string, write func(io.Writer) error) {
			files = append(files, store.File{Name: name, Write: write})
		})
		if err := s.opts.Store.Checkpoint(ctx, 1, []byte("{}"), files); err != nil {
			return err
		}
		snapshot.Written()
		return nil
	}, stored
}

// TestColdDamage checks that damage to a cold array's entry in a checkpoint, or to its file,
// is an error when it is needed, and changes nothing.
func TestColdDamage(t *testing.T) {
	g := mergeGeometry
	origins := []Origin{{"a", 1}, {"b", 1}}
	s := newShelf(t, 1, origins...)
	for _, o := range origins {
		s.images(o.ID, ArrayCounts, g, 100)
	}
	s.merge()
	write, stored := s.checkpoint()
	if err := write(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(a *StoredArray){
		"version":  func(a *StoredArray) { a.Cold.Version++ },
		"file":     func(a *StoredArray) { a.File = "other" },
		"geometry": func(a *StoredArray) { a.Geometry.K = 5 },
		"start":    func(a *StoredArray) { a.Start++ },
		"shape":    func(a *StoredArray) { a.Geometry.Lines = 0 },
		"in memory": func(a *StoredArray) {
			a.Cold, a.File = nil, "other"
		},
		"in memory, of another shape": func(a *StoredArray) { a.Cold, a.Geometry.Lines = nil, 0 },
	} {
		bad := slices.Clone(*stored)
		bad[0].Arrays = slices.Clone(bad[0].Arrays)
		a := &bad[0].Arrays[0]
		cold := *a.Cold
		a.Cold = &cold
		change(a)
		again := newShelf(t, 0)
		again.opts.Store = s.opts.Store
		err := again.Load(bad)
		if a.Cold == nil {
			if err == nil {
				t.Errorf("%s: loaded", name)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := again.ThawAll(); err == nil {
			t.Errorf("%s: thawed", name)
		}
		if err := again.Merge(t.Context(), func(f func()) { f() }, nil); err == nil {
			t.Errorf("%s: merged", name)
		}
		if v := again.View(); len(v.Merged) != 0 || !again.Arrays("a")[0].Merged || !again.Arrays("b")[0].Merged {
			t.Errorf("%s: %v is left behind", name, again.Arrays("a"))
		}
	}
	good := newShelf(t, 0)
	good.opts.Store = s.opts.Store
	if err := errors.Join(good.Load(*stored), good.ThawAll()); err != nil {
		t.Fatal(err)
	}
	for _, o := range origins {
		if got := good.Arrays(o.ID); len(got) != 1 || got[0].Merged || got[0].Keys != 100 {
			t.Errorf("%s has %+v, want 100 keys in memory", o.ID, got)
		}
	}
}

// TestMuchLater checks that a checkpoint is asked for when the rounds of a cold array since
// the last one, which are in memory, become many.
func TestMuchLater(t *testing.T) {
	if testing.Short() {
		t.Skip("applies millions of keys")
	}
	g := filter.Geometry{Kind: filter.Bitmap, Lines: 8 * filter.PageLines, K: 8, KeyID: 7}
	s := newShelf(t, 1, Origin{"a", 1}, Origin{"b", 1})
	for _, o := range []string{"a", "b"} {
		s.images(o, ArraySpam, g, 100)
	}
	s.merge()
	from, err := arrays.NewBits(g)
	if err != nil {
		t.Fatal(err)
	}
	from.SetGeneration(today)
	// Rounds that continue the array of a, whatever they add.
	version, bytes := s.Arrays("a")[0].Version, 0
	write, _ := s.checkpoint()
	keys := make([]filter.Key, 100_000)
	for i := range keys {
		keys[i] = filter.Key{Hi: mixed(uint64(i)), Lo: mixed(^uint64(i))}
	}
	for n := range 80 {
		r := from.NewRound()
		r.RecordBits(keys, make([]bool, len(keys)))
		r.Close()
		r.To += version - r.From
		r.From = version
		version = r.To
		part := Part{Array: ArraySpam, Start: today, Geometry: g, Round: r.AppendBody(nil), From: r.From, To: r.To}
		s.index++
		asked := s.asked
		if err := take(s.Set, s.index, "a", part); err != nil {
			t.Fatal(err)
		}
		bytes += len(part.Round)
		if want := bytes > maxLater; want != (s.asked > asked) {
			t.Fatalf("%d bytes of rounds, limit %d: a checkpoint is asked for: %v", bytes, maxLater, s.asked > asked)
		}
		if s.asked > asked {
			if n < 5 {
				t.Fatalf("a round of %d bytes", len(part.Round))
			}
			if err := write(t.Context()); err != nil {
				t.Fatal(err)
			}
			bytes = 0
		}
		if s.asked > 0 && bytes > 0 {
			return
		}
	}
	t.Error("no checkpoint was asked for")
}

func mixed(x uint64) uint64 {
	x = (x + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	return (x ^ x>>29) * 0x94d049bb133111eb
}
