function connectFigures() {
  const box = byId("vbagg-lightbox");
  const picture = box.querySelector("img");
  for (const button of document.querySelectorAll("button.enlarge")) {
    button.addEventListener("click", () => {
      const source = button.querySelector("img");
      picture.src = source.src;
      picture.alt = source.alt;
      box.querySelector("figcaption").textContent = button.parentNode.querySelector("figcaption")?.textContent ?? source.alt;
      box.showModal();
    });
  }
  box.addEventListener("click", ({ target }) => target.closest("figcaption") ?? box.close());
}

function connectCopying() {
  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      button.textContent = (await copied(button.nextElementSibling)) ? say("viewer.copied") : say("viewer.press");
      setTimeout(() => (button.textContent = say("viewer.copy")), 2000);
    });
  }
}

/** Copy the text, or else leave it selected. */
async function copied(node) {
  try {
    await navigator.clipboard.writeText(node.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(node);
    return false;
  }
}

function markCurrentSection() {
  const links = [...document.querySelectorAll("nav.contents a")];
  const sections = links.map((link) => byId(link.hash.slice(1)));
  const update = () => {
    const current = sections.findLastIndex((section) => section.getBoundingClientRect().top < innerHeight / 3);
    links.forEach((link, i) => {
      if (i === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  };
  addEventListener("scroll", update, { passive: true });
  update();
}

function unfoldForPrint() {
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((details) => (details.open = true));
  });
  addEventListener("afterprint", () => folded.forEach((details) => (details.open = false)));
}

function explainFailure(error) {
  byId("vbagg-board").replaceWith(element("p", { class: "notice" }, say("viewer.failed")));
  throw error;
}

connectFigures();
connectWords();
connectCopying();
markCurrentSection();
unfoldForPrint();
if (byId("vbagg-above-data")) startAbove();
startAreas();
if (byId("vbagg-settings")) startViewer().catch(explainFailure);
