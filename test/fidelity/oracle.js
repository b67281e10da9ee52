// Returns the words that a person sees of the page, and the links, as JSON. The browser computes all styles;
// this hides, besides what is not displayed, the text that is displayed and cannot be seen.
(() => {
	const parts = colour => {
		const n = (colour.match(/[\d.]+/g) || []).map(Number);
		return n.length < 3 ? null : [n[0], n[1], n[2], n.length > 3 ? n[3] : 1];
	};
	const over = (c, d) => [0, 1, 2].map(i => c[i] * c[3] + d[i] * (1 - c[3]));
	const styles = new Map();
	const style = e => {
		if (!styles.has(e)) styles.set(e, getComputedStyle(e));
		return styles.get(e);
	};
	const grounds = new Map();
	const ground = e => { // null with a picture
		if (!e) return [255, 255, 255];
		if (grounds.has(e)) return grounds.get(e);
		const around = ground(e.parentElement), c = parts(style(e).backgroundColor);
		let g = around;
		if (style(e).backgroundImage != 'none') g = null;
		else if (c && c[3] == 1) g = c.slice(0, 3);
		else if (c && around) g = over(c, around);
		grounds.set(e, g);
		return g;
	};
	const away = e => { // with all that is in it
		const s = style(e);
		const inline = s.display == 'inline' || s.display.startsWith('table');
		const zero = v => v == '0px';
		const far = v => parseFloat(v) <= -500;
		return parseFloat(s.opacity) < 0.05 ||
			(s.position == 'absolute' || s.position == 'fixed') &&
				([s.left, s.top, s.right, s.bottom].some(far) || /^rect\((0px|1px)?,? *(0px|1px)/.test(s.clip)) ||
			!inline && s.overflowX != 'visible' && [s.height, s.maxHeight, s.width, s.maxWidth].some(zero) ||
			far(s.marginLeft);
	};
	const aways = new Map();
	const gone = e => {
		if (!e) return false;
		if (!aways.has(e)) aways.set(e, away(e) || gone(e.parentElement));
		return aways.get(e);
	};
	const unseen = e => {
		const s = style(e), g = ground(e), c = parts(s.webkitTextFillColor);
		return gone(e) || parseFloat(s.fontSize) <= 1.34 || parseFloat(s.textIndent) <= -500 ||
			!!(g && c && over(c, g).every((v, i) => Math.abs(v - g[i]) <= 12));
	};
	for (const e of document.querySelectorAll('textarea')) { // a person sees what is in it
		const text = document.createElement('span');
		text.textContent = e.defaultValue;
		e.replaceWith(text);
	}
	const texts = [];
	const walk = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) texts.push(walk.currentNode);
	const hidden = texts.filter(t => t.parentElement && t.data.trim() && unseen(t.parentElement));
	const links = new Set();
	const out = /^[\s\x00-\x20]*[hft\/\\&]/i;
	const rendered = (e, visibility) => !!e && e.checkVisibility({visibilityProperty: visibility !== false}) && !gone(e);
	const take = (e, name, ok) => {
		const url = e.getAttribute(name);
		if (url !== null && ok && out.test(url)) links.add(url.trim());
	};
	const shows = a => {
		const walk = document.createTreeWalker(a, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
		while (walk.nextNode()) {
			const n = walk.currentNode;
			if (n.nodeType == 1 ? n.localName == 'img' && rendered(n) :
				n.data.trim() && rendered(n.parentElement) && !unseen(n.parentElement)) return true;
		}
		return false;
	};
	for (const a of document.querySelectorAll('a[href]'))
		take(a, 'href', a.namespaceURI.endsWith('xhtml') && rendered(a) && (!unseen(a) || shows(a)));
	for (const [selector, name] of [['area', 'href'], ['base', 'href'], ['form', 'action'], ['button', 'formaction'],
		['input', 'formaction'], ['iframe', 'src'], ['frame', 'src']])
		for (const e of document.querySelectorAll(selector + '[' + name + ']'))
			take(e, name, e.localName == 'base' || rendered(e.parentElement));
	for (const t of hidden) t.data = '';
	// What is invisible keeps its room: its text goes, and the ends of its lines stay.
	const invisible = [...document.querySelectorAll('body, body *')].filter(e => style(e).visibility != 'visible');
	for (const t of texts) if (invisible.includes(t.parentElement)) t.data = '';
	for (const e of invisible) e.style.setProperty('visibility', 'visible', 'important');
	return JSON.stringify({text: rendered(document.body, false) ? document.body.innerText : '', links: [...links].sort()});
})()
