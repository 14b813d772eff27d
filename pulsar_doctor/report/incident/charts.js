(() => {
  const begin = performance.now()
  const read = name => JSON.parse(document.getElementById(name).textContent)
  const {document: drawn, roots: those} = read("charts")
  const roots = Object.fromEntries(those.map(each => [each.id, each.place]))
  const items = [{docid: "page", roots, root_ids: Object.keys(roots)}]
  // The colours of text and lines are those of the page, also where it turns dark.
  const paint = () => {
    const css = getComputedStyle(document.documentElement)
    const ink = css.getPropertyValue("--ink").trim(), line = css.getPropertyValue("--line").trim()
    for (const each of Bokeh.documents) for (const model of each._all_models.values()) {
      const changes = {}
      for (const name in model.attributes) {
        if (name.endsWith("label_text_color")) changes[name] = ink
        else if (/^(grid|axis|major_tick|minor_tick|outline)_line_color$/.test(name)
          && model.attributes[name] !== null) changes[name] = line
      }
      if (Object.keys(changes).length) model.setv(changes)
    }
  }
  Bokeh.logger.set_level("error")
  Bokeh.embed.embed_items({page: drawn}, items).then(paint)
    .then(() => performance.measure("charts drawn", {start: begin}))
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint)
  matchMedia("print").addEventListener("change", paint)
  const all = open => () => document.querySelectorAll("details").forEach(each => { each.open = open })
  addEventListener("beforeprint", all(true))
})()
