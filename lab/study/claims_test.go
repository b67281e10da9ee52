package study

import (
	"slices"
	"testing"
)

func TestOrderMatters(t *testing.T) {
	if n := orderMatters(2); n != 0 {
		t.Errorf("%d intuitive cells depend on the order", n)
	}
}

// TestWorkedExample: the numbers that Yan & Cho print in section IV, and their Table II.
func TestWorkedExample(t *testing.T) {
	w := workedExample()
	if w.a != 2 || w.b != 3 || w.merged != 6 || w.intuitive != 8 || w.refined != 7 {
		t.Errorf("%+v", w)
	}
	want := [][]string{
		{"5", "5", "4", "4", "4", "4"}, {"4", "4", "3", "3", "3", "3"}, {"3", "3", "2", "2", "2", "2"},
		{"2", "2", "1", "1", "1", "1"}, {"1", "1", "0", "1", "1", "0"},
	}
	if !slices.EqualFunc(w.growth, want, slices.Equal) {
		t.Errorf("Table II: %v", w.growth)
	}
}
