/* groupcomm in a browser or in node, through `groupcomm web`. docs/browsers.md describes it.

   import { connect } from "/groupcomm.js";
   const connection = await connect("ws://127.0.0.1:4806/", { user: "ann" });
   await connection.join("chat");
   await connection.multicast("chat", "hello");
   for await (const event of connection) console.log(event.event, event.text);
*/

/** The most bytes of messages that wait for the program; with more the connection ends. */
export const MOST_WAITING = 16 * 1024 * 1024;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** An error that the daemon or the server tells. */
export class GroupCommError extends Error {}

/**
 * Open a session; it has its name when the promise is fulfilled.
 * @param {string} url of the server: ws://host:port/ or wss://host:port/
 * @param {object} options user: a name; token: authenticates the session, unless a cookie does;
 *     groups, start: read the history of these groups from "earliest", "latest", "@TIME" or a
 *     position on, and go on with live events; WebSocket: another class of them.
 */
export async function connect(url, options = {}) {
  const { WebSocket = globalThis.WebSocket, ...request } = options;
  const connection = new Connection(new WebSocket(url), url);
  await connection.opened;
  connection.name = (await connection.request({ do: "connect", ...request })).name;
  return connection;
}

/** A session. Iterate over it for its events; its calls are fulfilled once the daemon has them. */
export class Connection {
  name = "";
  position = null; // of the last event that the program has got and that has one
  #socket;
  #next = 1;
  #answers = new Map(); // by number: what fulfils and what rejects a promise
  #events = [];
  #bytes = 0;
  #wake = () => {};
  #ended = null;

  constructor(socket, url) {
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => this.#receive(data);
    this.opened = new Promise((fulfil, reject) => {
      this.#answers.set(0, { fulfil, reject });
      socket.onopen = () => { this.#answers.delete(0); fulfil(); };
    });
    socket.onerror = () => this.#end(
      `cannot connect to ${url}: no server listens there, or it refuses this page; its log says why`);
    socket.onclose = ({ code, reason }) => this.#end(reason || `the connection has ended (${code})`, code);
  }

  /** Become a member of a group; the first view. */
  async join(group) { return (await this.request({ do: "join", group })).view; }

  /** End a membership. */
  async leave(group) { await this.request({ do: "leave", group }); }

  /** Send text or bytes to a group, or to several; wait while the daemon accepts no more. */
  async multicast(groups, data, { level = "AGREED", type = 0, selfDiscard = false } = {}) {
    await this.request({
      do: "multicast", groups: [groups].flat(), level, type, self_discard: selfDiscard,
    }, typeof data === "string" ? encoder.encode(data) : new Uint8Array(data));
  }

  /** End the session. */
  close() { this.#socket.close(1000); }

  /** Send a request; its answer. */
  request(told, data = null) {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = this.#next++;
    const text = JSON.stringify({ id, ...told });
    return new Promise((fulfil, reject) => {
      this.#answers.set(id, { fulfil, reject });
      this.#socket.send(data === null ? text : packed(encoder.encode(text), data));
    });
  }

  /** The events in their order, until the session ends; its end is an error, unless by close(). */
  async *[Symbol.asyncIterator]() {
    for (;;) {
      while (this.#events.length) {
        const event = this.#events.shift();
        this.#bytes -= event.data?.length ?? 0;
        this.position = event.position ?? this.position;
        yield event;
      }
      if (this.#ended) {
        if (this.#ended.code === 1000) return;
        throw this.#ended;
      }
      await new Promise((wake) => { this.#wake = wake; });
    }
  }

  #receive(frame) {
    const told = typeof frame === "string" ? JSON.parse(frame) : unpacked(frame);
    if (told.re !== undefined) {
      const answer = this.#answers.get(told.re);
      this.#answers.delete(told.re);
      if (told.error === undefined) answer?.fulfil(told);
      else answer?.reject(new GroupCommError(told.error));
    } else if (told.event === "ended") {
      this.#end(told.why);
    } else {
      this.#bytes += told.data?.length ?? 0;
      this.#events.push(told);
      this.#wake();
      if (this.#bytes > MOST_WAITING) {
        this.#end("the program is too slow: too many messages wait for it");
        this.close();
      }
    }
  }

  #end(why, code) {
    this.#ended ??= Object.assign(new GroupCommError(why), { code });
    for (const { reject } of this.#answers.values()) reject(this.#ended);
    this.#answers.clear();
    this.#wake();
  }
}

function packed(head, data) {
  const frame = new Uint8Array(2 + head.length + data.length);
  new DataView(frame.buffer).setUint16(0, head.length);
  frame.set(head, 2);
  frame.set(data, 2 + head.length);
  return frame;
}

function unpacked(buffer) {
  const end = 2 + new DataView(buffer).getUint16(0);
  const told = JSON.parse(decoder.decode(new Uint8Array(buffer, 2, end - 2)));
  told.data = new Uint8Array(buffer, end);
  Object.defineProperty(told, "text", { get() { return decoder.decode(this.data); } });
  return told;
}
