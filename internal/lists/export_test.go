package lists

// SetFiles replaces the lists of the set. It changes nothing and returns an error for a file that
// cannot be read, a duplicate name or more than 256 lists. A list that stays keeps its handle.
func (s *Set) SetFiles(files []File) error {
	c, err := s.Prepare(files)
	if err != nil {
		return err
	}
	c.Commit()
	return nil
}

// HasAddress reports whether a mail address in lower case, or its domain, is
// listed.
func (h *Handle) HasAddress(text string) bool { return h.has(Entry{Address, text}) }
