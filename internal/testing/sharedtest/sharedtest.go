// Package sharedtest finds what the tests of several packages read: the test vectors in the
// repository's testdata/vectors, and the mail corpus, which is real mail and therefore not in
// the repository.
package sharedtest

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Vector returns the path of a test vector, for example
// Vector(t, "pyzor", "digests.txt").
func Vector(t testing.TB, elem ...string) string {
	t.Helper()
	dir, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(append([]string{dir, "testdata", "vectors"}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("test vector: %v", err)
	}
	return path
}

// Corpus returns the path of a file or folder of the mail corpus, for example
// Corpus(t, "samples"). Where the corpus is absent the test is skipped, unless
// $BULKHEAD_CORPUS demands it: see [corpus].
func Corpus(t testing.TB, elem ...string) string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	path, required, err := corpus(os.Getenv("BULKHEAD_CORPUS"), root, elem...)
	switch {
	case err != nil && required:
		t.Fatalf("BULKHEAD_CORPUS demands the mail corpus: %v", err)
	case err != nil:
		t.Skipf("needs the private mail corpus: %v", err)
	}
	return path
}

// Case returns the content of a file of the cases that stand beside the mail corpus: messages that were
// once misread. It skips the test as [Corpus] does.
func Case(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(Corpus(t, "..", "cases", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// corpus returns a path in the corpus, whether a test without it has failed, and
// an error if it is missing. setting is the value of $BULKHEAD_CORPUS: empty for
// the default place, which may be missing; "required" for the default place,
// which must be there; or the folder of the corpus, which must be there. The
// default place is shared/corpus beside the module's folder.
func corpus(setting, root string, elem ...string) (path string, required bool, err error) {
	dir := filepath.Join(filepath.Dir(root), "shared", "corpus")
	if setting != "" && setting != "required" {
		dir = setting
	}
	path = filepath.Join(append([]string{dir}, elem...)...)
	_, err = os.Stat(path)
	return path, setting != "", err
}

// moduleRoot returns the folder of this module, in or above the working folder.
func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "house_test.go")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("sharedtest: no house_test.go in or above %s", start)
		}
	}
}

// Unpack unpacks one archive of the corpus, for example "spamassassin-2002",
// and returns the folder that it holds. Archives are unpacked once for each
// machine and user, below the user's cache folder, and reused afterwards.
func Unpack(t testing.TB, name string) string {
	t.Helper()
	archive := Corpus(t, name+".tar.zst")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(cache, "bulkhead-corpus")
	dir := filepath.Join(base, name)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		t.Fatal(err)
	}
	tmp, err := os.MkdirTemp(base, "unpacking-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	if err := unpack(tmp, archive); err != nil {
		t.Fatalf("unpack %s: %v", archive, err)
	}
	// Another test process may have been faster; its copy is just as good.
	if err := os.Rename(filepath.Join(tmp, name), dir); err != nil {
		if _, statErr := os.Stat(dir); statErr != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// unpack unpacks a compressed tar of folders and plain files into dir. It refuses names that
// lead out of dir.
func unpack(dir, archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	// The archives of the corpus have a window of 128 MiB.
	z, err := zstd.NewReader(f, zstd.WithDecoderMaxWindow(1<<27), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer z.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case h.Typeflag == tar.TypeDir:
			err = root.MkdirAll(filepath.Clean(h.Name), 0o700)
		case h.Typeflag == tar.TypeReg:
			err = write(root, filepath.Clean(h.Name), in)
		}
		if err != nil {
			return err
		}
	}
}

func write(root *os.Root, name string, in io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	out, err := root.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
