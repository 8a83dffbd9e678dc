// Open-loop load: requests start at fixed times, whatever the server does, and latency counts from the planned time.
// (autocannon -R sends each connection's share of a second in one go, so its load is a burst a second.)
// node load.js HOST PORT RATE SECONDS BODIES [PATH [TYPE]]; BODIES has one body a line. Prints one JSON object.
'use strict'
const net = require('net')
const fs = require('fs')

const [host, port, rate, seconds, file, path = '/v1/predict', type = 'application/json'] = process.argv.slice(2)
const bodies = fs.readFileSync(file, 'utf8').split('\n').filter(Boolean).map((body) => {
  const head = `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-type: ${type}\r\n`
  return Buffer.from(`${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
})
const MOST = 4000 // connections
const idle = []
const waiting = [] // requests that came while all connections were taken
const latencies = {} // status -> ms
const errors = {}
let sent = 0
let answered = 0
let connections = 0

function count (table, key) { table[key] = (table[key] || 0) + 1 }

function connect (job) {
  connections++
  const socket = net.connect({ host, port: Number(port), noDelay: true })
  socket.text = ''
  socket.on('connect', () => send(socket, job))
  socket.on('data', (data) => received(socket, data))
  socket.on('error', (error) => count(errors, error.code))
  socket.on('close', () => {
    connections--
    const place = idle.indexOf(socket)
    if (place >= 0) idle.splice(place, 1)
    if (socket.job) { count(errors, 'lost'); answered++; socket.job = null }
  })
}

function send (socket, job) {
  socket.job = job
  socket.write(bodies[job.number % bodies.length])
}

function received (socket, data) {
  socket.text += data.toString('latin1')
  const end = socket.text.indexOf('\r\n\r\n')
  if (end < 0) return
  const length = Number(/content-length: (\d+)/i.exec(socket.text)[1])
  if (socket.text.length < end + 4 + length) return
  const status = socket.text.slice(9, 12)
  const closes = /connection: close/i.test(socket.text.slice(0, end))
  socket.text = socket.text.slice(end + 4 + length)
  ;(latencies[status] = latencies[status] || []).push(performance.now() - socket.job.planned)
  answered++
  socket.job = null
  if (closes) { socket.destroy(); return }
  if (waiting.length) send(socket, waiting.shift())
  else idle.push(socket)
}

function fire (planned) {
  const job = { number: sent++, planned }
  if (idle.length) send(idle.pop(), job)
  else if (connections < MOST) connect(job)
  else waiting.push(job)
}

const start = performance.now() + 50
const total = Math.round(rate * seconds)
const timer = setInterval(() => {
  const due = Math.min(total, Math.floor((performance.now() - start) * rate / 1000))
  while (sent < due) fire(start + (sent + 1) * 1000 / rate)
  if (sent === total && (answered >= total || performance.now() - start > seconds * 1000 + 35000)) report()
}, 1)

function quantiles (values) {
  values.sort((a, b) => a - b)
  const at = (q) => Number(values[Math.min(values.length - 1, Math.floor(q * values.length))].toFixed(2))
  return { requests: values.length, p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: at(1) }
}

function report () {
  clearInterval(timer)
  const wall = (performance.now() - start) / 1000
  const usage = process.resourceUsage()
  const status = Object.fromEntries(Object.entries(latencies).map(([key, values]) => [key, quantiles(values)]))
  const cpu = Number(((usage.userCPUTime + usage.systemCPUTime) / 1e6 / wall).toFixed(3))
  console.log(JSON.stringify({
    rate: Number(rate), seconds: Number(wall.toFixed(2)), sent, answered, connections, status, errors, generator_cpu: cpu
  }))
  process.exit(0)
}
