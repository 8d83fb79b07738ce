// A browser that a link of `ndtrain dashboard` has signed in can leave again.
import {get, post} from "./api.js";
import {find} from "./dom.js";

export async function set_up_session() {
  const button = find("sign_out");
  button.addEventListener("click", async () => {
    await post("/logout");
    location.reload();
  });
  const session = await get("/session");
  button.title = `Signed in by the token of ${session.who}`;
  button.hidden = !session.browser;
}
