package dcc

import (
	"errors"
	"testing"
	"testing/fstest"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
)

func TestWhiteFiles(t *testing.T) {
	now := time.Unix(1000, 0)
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), ModTime: now} }
	folder := fstest.MapFS{"joe/whiteclnt": file("many from a@example.org\n")}
	w := &WhiteFiles{Folder: folder, Now: func() time.Time { return now }}
	has := func(user, from string) bool {
		_, ok := w.User(user).lookup(&Checksum{digests.TypeFrom, digests.ValueSum("", from)})
		return ok
	}
	if !has("joe", "a@example.org") || has("ann", "a@example.org") {
		t.Error("joe's list is not read, or ann has one")
	}
	for _, name := range []string{"", ".", "..", "../joe", "/joe", "joe/", "./joe", "joe/."} {
		if w.User(name) != nil {
			t.Errorf("user %q has a list", name)
		}
	}
	folder["joe/whiteclnt"] = file("many from b@example.org\n")
	now = now.Add(whiteFileEvery - 1)
	if has("joe", "b@example.org") {
		t.Error("the file is looked at again at once")
	}
	now = now.Add(1)
	folder["joe/whiteclnt"] = file("many from b@example.org\n")
	if !has("joe", "b@example.org") || has("joe", "a@example.org") {
		t.Error("the changed file is not read")
	}
	now = now.Add(whiteFileEvery)
	folder["joe/whiteclnt"] = file("nonsense\n")
	if !has("joe", "b@example.org") {
		t.Error("a mistake in the file empties the list")
	}
	now = now.Add(whiteFileEvery)
	delete(folder, "joe/whiteclnt")
	if has("joe", "b@example.org") {
		t.Error("the list outlives its file")
	}
}

// TestWhiteFilesInclude: a change of a file that is included takes effect too.
func TestWhiteFilesInclude(t *testing.T) {
	now := time.Unix(1000, 0)
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), ModTime: now} }
	folder := fstest.MapFS{
		"whiteclnt": file("include a\nok from main@example.org\n"), "a": file("include b\n"),
		"b": file("ok from b1@example.org\n"),
	}
	w := &WhiteFiles{Folder: folder, Now: func() time.Time { return now }}
	has := func(from string) bool {
		_, ok := w.Get("whiteclnt").lookup(&Checksum{digests.TypeFrom, digests.ValueSum("", from)})
		return ok
	}
	if !has("b1@example.org") || !has("main@example.org") {
		t.Fatal("the list is not read whole")
	}
	now = now.Add(whiteFileEvery)
	folder["b"] = file("ok from b2@example.org\n")
	if has("b1@example.org") || !has("b2@example.org") || !has("main@example.org") {
		t.Error("a changed file that is included is not read")
	}
	now = now.Add(whiteFileEvery)
	delete(folder, "b")
	if !has("b2@example.org") {
		t.Error("an included file that has gone empties the list")
	}
	now = now.Add(whiteFileEvery)
	folder["b"] = file("ok from b3@example.org\n")
	if !has("b3@example.org") {
		t.Error("an included file that came back is not read")
	}
	read := w.Get("whiteclnt")
	now = now.Add(whiteFileEvery)
	if w.Get("whiteclnt") != read {
		t.Error("files that have not changed are read again")
	}
}

func TestParseThreshold(t *testing.T) {
	got, err := ParseThreshold("CMN,many")
	if err != nil || len(got) != 3 || got[digests.TypeFuz2] != Many {
		t.Errorf("CMN,many: %v, %v", got, err)
	}
	if got, err := ParseThreshold("body, 20"); err != nil || got[digests.TypeBody] != 20 {
		t.Errorf("body, 20: %v, %v", got, err)
	}
	for _, bad := range []string{"", "body", "body,", "body,-1", "colour,3", "body,99999999"} {
		if _, err := ParseThreshold(bad); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%q: %v, want one that wraps ErrMalformed", bad, err)
		}
	}
}
