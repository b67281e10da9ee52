package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// meant suggests a correction of an unknown key: "; did you mean node.name?", or "" if no key is
// similar. It prefers a similar key of the same table, then a key of exactly that name in another
// table, then a table of a similar name.
func meant(key []string) string {
	if len(key) == 0 {
		return ""
	}
	known := keys()
	last, table := key[len(key)-1], strings.Join(key[:len(key)-1], ".")
	var candidates []string
	for _, k := range known {
		if parent, name := split(k); parent == table && near(last, name) {
			candidates = append(candidates, k)
		}
	}
	if len(candidates) == 0 {
		for _, k := range known {
			if _, name := split(k); name == last {
				candidates = append(candidates, k)
			}
		}
	}
	if len(candidates) == 0 && len(key) > 1 {
		// The table does not exist, so its keys are unknown with it.
		for _, k := range known {
			if parent, name := split(k); name == last && near(table, parent) {
				candidates = append(candidates, k)
			}
		}
	}
	slices.SortStableFunc(candidates, func(a, b string) int {
		_, x := split(a)
		_, y := split(b)
		return distance(last, x) - distance(last, y)
	})
	if len(candidates) == 0 {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", candidates[0])
}

func split(key string) (parent, name string) {
	if at := strings.LastIndexByte(key, '.'); at >= 0 {
		return key[:at], key[at+1:]
	}
	return "", key
}

// keys returns all keys and tables, dotted.
func keys() (all []string) {
	var walk func(t reflect.Type, prefix string)
	walk = func(t reflect.Type, prefix string) {
		for i := range t.NumField() {
			f := t.Field(i)
			name := prefix + f.Tag.Get("toml")
			all = append(all, name)
			inner := f.Type
			if inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				walk(inner, name+".")
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
	return all
}

// near reports whether one word may be a misspelling of another: at most a third of its
// letters are wrong, missing or superfluous, or two have changed places.
func near(a, b string) bool {
	n := min(len(a), len(b))
	return distance(a, b) <= max(1, n/3, min(2, n/2))
}

// distance returns the Levenshtein distance of two words. Words are cut at 64 bytes, because no key
// is that long.
func distance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
