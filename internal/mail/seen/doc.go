// Package seen reads pages of HTML as people see them: the words that are shown, the links that can be followed,
// and the names of the elements. A regular page is read as a stream. A page that hides something and whose tags
// a browser would rearrange, or whose style sheets matter, is read from the tree of the HTML standard.
package seen
