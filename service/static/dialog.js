// The one dialog of a page: a question, or the tags of the selected studies.

const dialog = document.getElementById("dialog");

function part(name) {
  return document.getElementById(`dialog-${name}`);
}

function open(title, sentences, button) {
  part("title").textContent = title;
  part("text").replaceChildren(
    ...sentences.filter(Boolean).map((sentence) => {
      const line = document.createElement("p");
      line.textContent = sentence;
      return line;
    }),
  );
  part("yes").textContent = button;
  part("problem").hidden = true;
  dialog.returnValue = "no"; // Escape is no
  dialog.showModal();
}

function closed() {
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
}

export async function confirmed({ title, text, button }) {
  part("fields").hidden = true;
  open(title, text, button);
  part("yes").focus();
  return closed();
}

function words(name) {
  return document.getElementById(name).value.split(/[\s,]+/).filter(Boolean);
}

function check(event) {
  const pattern = new RegExp(document.getElementById("add-tags").dataset.pattern);
  const wrong = words("add-tags").filter((tag) => !pattern.test(tag));
  const none = !words("add-tags").length && !words("remove-tags").length;
  if (event.submitter?.value === "yes" && (wrong.length || none)) {
    event.preventDefault();
    part("problem").textContent = none
      ? "Write a tag to add or to remove."
      : `Cannot be a tag: ${wrong.join(", ")}.`;
    part("problem").hidden = false;
  }
}

// Tags to add and to remove; null if the reader went back.
export async function askTags(title, text) {
  part("fields").hidden = false;
  open(title, [text], "Change tags");
  const form = dialog.querySelector("form");
  form.addEventListener("submit", check);
  document.getElementById("add-tags").focus();
  const agreed = await closed();
  form.removeEventListener("submit", check);
  const tags = { add: words("add-tags"), remove: words("remove-tags") };
  if (agreed) {
    form.reset();
  }
  return agreed ? tags : null;
}
