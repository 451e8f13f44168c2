// Runs Perfetto's trace processor, as its viewer ships it for browsers, under Node.
// node trace_processor.js FOLDER: remote calls on standard input, replies on standard output, framed as Perfetto frames them.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const folder = process.argv[2];
const replies = [];
const port = { postMessage: (bytes) => replies.push(Buffer.from(bytes)) };

class XMLHttpRequest {
  open(_method, name) {
    this.file = path.join(folder, path.basename(name));
  }
  send() {
    const bytes = fs.readFileSync(this.file);
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
    this.status = 200;
  }
}

const scope = {
  WorkerGlobalScope: class {},
  XMLHttpRequest,
  location: { href: "file:///engine_bundle.js" },
  console: { log: () => {}, warn: () => {}, error: (line) => process.stderr.write(`${line}\n`) },
  importScripts: () => {},
  performance, setTimeout, clearTimeout, URL, TextDecoder, TextEncoder, crypto,
};
scope.self = scope;
const source = fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8");
const exposed = source.replace("=new e.WasmBridge;", "=self.bridge=new e.WasmBridge;");
if (exposed === source) throw new Error("the bundle is not the one this was written for");
vm.createContext(scope);
vm.runInContext(exposed, scope);
const Bytes = vm.runInContext("Uint8Array", scope); // a type of its own there, which the bundle asks for

async function main() {
  scope.onmessage({ data: port });
  while (!scope.bridge.reqBufferAddr) await new Promise((wake) => setTimeout(wake, 5));
  port.onmessage({ data: Bytes.from(fs.readFileSync(0)) });
  let left = Buffer.concat(replies);
  while (left.length) left = left.subarray(fs.writeSync(1, left)); // a pipe takes some at a time
}
main().catch((error) => {
  process.stderr.write(`${error.stack || error}\n`);
  process.exit(1);
});
