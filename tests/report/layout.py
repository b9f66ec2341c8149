"""What is looked for in a page that a browser shows: scripts for its console, each gives a list."""

SEEN = """[...document.querySelectorAll('figure[data-figure]')].map(figure => {
    const boxes = [...figure.querySelectorAll('svg')].map(svg => svg.getBoundingClientRect());
    return [figure.dataset.figure, boxes.some(box => box.width > 300 && box.height > 100)];
})"""
"""Every figure by name, and whether there is something to be seen of it."""

HIDDEN = """[...document.querySelectorAll('figure .scrolls')].filter(one => one.scrollWidth > one.clientWidth + 1)
    .map(one => one.closest('figure').dataset.figure)"""
"""Figures of which a part can only be seen by scrolling sideways."""

OVERLAPS = """[...document.querySelectorAll('figure svg')].flatMap(svg => {
    const texts = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
    return texts.flatMap(([one, a], at) => texts.slice(at + 1)
        .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
            && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.4 * Math.min(a.height, b.height))
        .map(([other]) => [one, other]));
})"""
"""Pairs of labels in figures that cover each other."""

CUT = """[...document.querySelectorAll('figure svg')].flatMap(svg => {
    const room = svg.getBoundingClientRect();
    return [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()])
        .filter(([, box]) => box.left < room.left - 1 || box.right > room.right + 1
            || box.top < room.top - 1 || box.bottom > room.bottom + 1)
        .map(([told]) => told);
})"""
"""Labels that are not all within their figure."""

TOO_WIDE = """[...document.querySelectorAll('details')].forEach(one => one.open = true),
[...document.querySelectorAll('html, body *')]
    .filter(one => !one.closest('svg, .scrolls > *, head, style') && getComputedStyle(one).display !== 'inline')
    .flatMap(one => {
        const scrolls = one.classList.contains('scrolls'), box = one.getBoundingClientRect();
        const over = scrolls ? 0 : one.scrollWidth - one.clientWidth;
        const around = one.parentElement?.getBoundingClientRect().right ?? innerWidth;
        const out = Math.max(box.right - innerWidth, one.tagName === 'TABLE' ? box.right - around : 0);
        const told = one.tagName + ' ' + one.textContent.trim().slice(0, 40);
        return over > 1 || out > 1 ? [told + ': ' + Math.max(over, out) + ' pixels too wide'] : [];
    })"""
"""Whatever is wider than the page or than what it stands in, the scenario opened; a figure may scroll by itself."""
