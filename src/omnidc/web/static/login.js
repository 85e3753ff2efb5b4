// Exchanges the key for a cookie, then opens the page itself.

const form = document.getElementById("login"), error = document.getElementById("login-error");

form.onsubmit = async (e) => {
  e.preventDefault();
  error.textContent = "";
  const body = JSON.stringify({ key: document.getElementById("key").value });
  const answer = await fetch("page/login", { method: "POST", headers: { "Content-Type": "application/json" }, body }).catch(() => null);
  if (answer?.ok) return location.reload();
  error.textContent = answer ? (await answer.json()).error : "The server cannot be reached: is omnidc web still running?";
};
