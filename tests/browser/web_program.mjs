// What a program of node does with groupcomm.js: argv has the module, the URL and a step to begin at.
const [module, url, start] = process.argv.slice(2);
const { connect } = await import(module);

if (start) {
  const history = await connect(url, { groups: ["room"], start });
  for await (const event of history) {
    if (event.event !== "message") continue;
    console.log(JSON.stringify({ text: event.text, position: history.position }));
    if (event.text === "last") break;
  }
  history.close();
} else {
  const connection = await connect(url);
  const view = await connection.join("room");
  console.log(JSON.stringify({ text: view.members.at(-1), name: connection.name }));
  const failed = await connection.leave("elsewhere").catch((error) => error.message);
  console.log(JSON.stringify({ text: failed }));
  await connection.multicast("room", "from node", { level: "SAFE" });
  for await (const event of connection) {
    if (event.event !== "message") continue;
    console.log(JSON.stringify({ text: event.text }));
    if (event.text === "end") break;
  }
  await connection.leave("room");
  connection.close();
  for await (const event of connection) console.error(event.event);
}
