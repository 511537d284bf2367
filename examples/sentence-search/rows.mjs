// What the encoder does beside products and attention: arithmetic on the rows of matrices [rows, width].

/**
 * Element i, which is known to exist.
 * @param {Float32Array} x
 * @param {number} i
 */
export const at = (x, i) => /** @type {number} */ (x[i]);

/**
 * x = x + y
 * @param {Float32Array} x
 * @param {Float32Array} y
 */
export function addTo(x, y) {
  for (let i = 0; i < x.length; i++) x[i] = at(x, i) + at(y, i);
}

/**
 * Row p is [sin(p f) | cos(p f)] over the angular frequencies f. The angle is rounded to float32, as it is in the
 * original: that moves an angle of 100 by up to 4e-6.
 * @param {Float32Array} frequencies
 * @param {number} positions
 */
export function positionSignal(frequencies, positions) {
  const half = frequencies.length;
  const signal = new Float32Array(positions * 2 * half);
  for (let p = 0; p < positions; p++) {
    frequencies.forEach((frequency, j) => {
      const angle = Math.fround(p * frequency);
      signal[2 * half * p + j] = Math.sin(angle);
      signal[2 * half * p + half + j] = Math.cos(angle);
    });
  }
  return signal;
}

/**
 * @param {Float32Array} x
 * @returns {Float32Array} a copy, scaled so that the squares sum to 1
 */
export function unit(x) {
  let squares = 0;
  for (let i = 0; i < x.length; i++) squares += at(x, i) * at(x, i);
  const factor = 1 / Math.sqrt(Math.max(squares, 1e-12));
  const out = new Float32Array(x.length);
  for (let i = 0; i < x.length; i++) out[i] = factor * at(x, i);
  return out;
}
