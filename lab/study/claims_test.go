package study

import (
	"slices"
	"strings"
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

// TestWrap: running text is broken at the width, code stays whole, and no line begins like an item.
func TestWrap(t *testing.T) {
	long := strings.Repeat("word ", 19) // 95 characters
	for text, want := range map[string]string{
		"# " + long + long:                       "# " + long + long,
		long + "`a b c` end":                     strings.TrimSpace(long) + "\n`a b c` end",
		"- " + long + "then":                     "- " + strings.TrimSpace(long) + "\n  then",
		long + "of n - 1 elements":               strings.TrimSpace(long) + " of\nn - 1 elements",
		long[:90] + "of n - 1":                   strings.TrimSpace(long[:90]) + " of n - 1",
		long + "n\n" + "    code " + long + long: strings.TrimSpace(long) + " n\n" + "    code " + long + long,
		long + "n - 1":                           strings.TrimSpace(long) + " n - 1",
	} {
		if got := wrap(text); got != want {
			t.Errorf("wrap(%q) = %q, want %q", text, got, want)
		}
	}
}
