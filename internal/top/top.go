// Package top finds the most frequent items of a stream, in a table of bounded size.
//
//	t := top.New(64)
//	t.Add("example.com", 1)
//	for _, item := range t.Items(10) {
//		fmt.Println(item.Name, item.Count)
//	}
package top

import (
	"cmp"
	"container/heap"
	"slices"
)

// A Table counts names by the algorithm Space-Saving (Metwally, Agrawal and El Abbadi, "Efficient
// Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005). A name that is not in a
// full table takes the place and the count of the entry with the lowest count. Any name whose share
// of the total is more than 1 in the table's size is therefore in the table. A count is never too
// low, and too high by at most that share. A Table is not safe for concurrent use.
type Table struct {
	size int
	at   map[string]*place
	heap places
}

// An Item is a name with its count.
type Item struct {
	Name  string
	Count float64 // at least the amount that was added for the name
	Error float64 // the most by which Count can be too high
}

type place struct {
	Item
	index int // in the heap
}

// New returns a table of at most size names, 1 or more.
func New(size int) *Table {
	return &Table{size: max(1, size), at: make(map[string]*place)}
}

// Add adds n, more than 0, to the count of a name.
func (t *Table) Add(name string, n float64) {
	if p := t.at[name]; p != nil {
		p.Count += n
		heap.Fix(&t.heap, p.index)
		return
	}
	if len(t.heap) < t.size {
		p := &place{Item: Item{Name: name, Count: n}}
		t.at[name] = p
		heap.Push(&t.heap, p)
		return
	}
	p := t.heap[0]
	delete(t.at, p.Name)
	p.Item = Item{Name: name, Count: p.Count + n, Error: p.Count}
	t.at[name] = p
	heap.Fix(&t.heap, 0)
}

// AddBytes is Add for a name in bytes, which it copies only if the name is new.
func (t *Table) AddBytes(name []byte, n float64) {
	if p := t.at[string(name)]; p != nil {
		p.Count += n
		heap.Fix(&t.heap, p.index)
		return
	}
	t.Add(string(name), n)
}

// Remove forgets a name.
func (t *Table) Remove(name string) {
	if p := t.at[name]; p != nil {
		heap.Remove(&t.heap, p.index)
		delete(t.at, name)
	}
}

// Scale multiplies all counts by f, which must be positive.
func (t *Table) Scale(f float64) {
	for _, p := range t.heap {
		p.Count, p.Error = p.Count*f, p.Error*f
	}
}

// Items returns up to n names, the most frequent first. Names with equal counts are in alphabetical
// order.
func (t *Table) Items(n int) []Item {
	all := make([]Item, len(t.heap))
	for i, p := range t.heap {
		all[i] = p.Item
	}
	slices.SortFunc(all, func(a, b Item) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(n, len(all))]
}

// places is a heap with the lowest count on top.
type places []*place

func (h places) Len() int           { return len(h) }
func (h places) Less(i, j int) bool { return h[i].Count < h[j].Count }

func (h places) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements [heap.Interface].
func (h *places) Push(x any) {
	p := x.(*place)
	p.index = len(*h)
	*h = append(*h, p)
}

// Pop implements [heap.Interface].
func (h *places) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return p
}
