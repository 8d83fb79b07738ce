// A question before something that not every further click undoes.
import {el, find, say} from "./dom.js";

let asked = null;

// {title, about, action, does}: `about` is the elements that say what would be, or a promise of
// them, without which nobody can say yes; then `does` is called, and awaited.
export async function ask_first(question) {
  asked = question;
  find("confirm_title").textContent = question.title;
  find("confirm_about").replaceChildren(el("p", {class: "muted"}, "looking …"));
  find("confirm_do").textContent = question.action;
  find("confirm_do").disabled = true;
  say("confirm_refusal", "");
  find("confirm").showModal();
  try {
    const about = await question.about;
    if (asked !== question) return;
    find("confirm_about").replaceChildren(...about);
    find("confirm_do").disabled = false;
  } catch (e) {
    if (asked === question) say("confirm_refusal", e.message);
  }
}

export function set_up_confirm() {
  find("confirm_do").addEventListener("click", async () => {
    try {
      await asked.does();
      find("confirm").close();
    } catch (e) {
      say("confirm_refusal", e.message);
    }
  });
  find("confirm_leave").addEventListener("click", () => find("confirm").close());
}
