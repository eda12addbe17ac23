/*
 * A feed-forward neural network with tanh units as a regression.
 *
 *     y[n] ~ N(f(x[n]), sd^2),  f(x) = h_L(x) w + b
 *     h_l = tanh(h_(l-1) W_l + b_l),  h_0 = x
 *     every weight and bias ~ N(0, weight_sd^2)
 *     sd = noise_sd if that is positive, else sd = sigma^2, sigma ~ Gamma(sigma_shape, sigma_rate)
 *
 * Purpose: the lecture's Bayesian neural network, with any number of layers of any width. Where
 * the noise is estimated, sigma^2 is its standard deviation, as in the lecture, not its variance.
 * Units of a layer can swap and change sign without changing f, so each mode of the weights has
 * at least prod_l 2^width[l] width[l]! copies: judge f, not the weights.
 *
 * Source: Neal (1996), Bayesian Learning for Neural Networks, chapter 2; MacKay (2003),
 * Information Theory, Inference, and Learning Algorithms, chapter 41.
 */
functions {
  // The last hidden layer at each row of x. weight holds the layers one after the other, and of
  // each layer its units, each with the weights of its inputs and then its bias.
  matrix hidden(vector weight, matrix x, array[] int width) {
    if (num_elements(width) == 0) {
      return x;
    }
    int num_in = cols(x) + 1;
    int num_out = width[1];
    matrix[num_in, num_out] w = to_matrix(head(weight, num_in * num_out),
                                          num_in, num_out);
    matrix[rows(x), num_out] h = tanh(append_col(x, ones_vector(rows(x))) * w);
    int num_left = num_elements(weight) - num_in * num_out;
    return hidden(tail(weight, num_left), h, width[2 : ]);
  }
  // The number of weights and biases of the hidden layers.
  int num_hidden_weights(int num_inputs, array[] int width) {
    int num_in = num_inputs;
    int num = 0;
    for (num_out in width) {
      num += (num_in + 1) * num_out;
      num_in = num_out;
    }
    return num;
  }
}
data {
  int<lower=1> N; // points
  int<lower=1> D; // inputs
  matrix[N, D] x; // inputs of each point
  vector[N] y; // what was measured there
  int<lower=0> L; // hidden layers
  array[L] int<lower=1> width; // units of each hidden layer
  real<lower=0> weight_sd; // prior standard deviation of weights and biases
  real<lower=0> noise_sd; // standard deviation of the noise; 0: estimate it
  real<lower=0> sigma_shape; // prior shape of sigma, where it is estimated
  real<lower=0> sigma_rate; // prior rate of sigma
}
transformed data {
  int num_hidden = num_hidden_weights(D, width); // weights and biases before the output
  int num_last = L == 0 ? D : width[L]; // units that feed the output
}
parameters {
  vector[num_hidden] hidden_weight; // units one after the other, each with its bias last
  vector[num_last] output_weight; // w, weights of the last layer's units
  real output_bias; // b, the value where they are all 0
  array[noise_sd > 0 ? 0 : 1] real<lower=0> sigma; // square root of the noise's sd, or none
}
model {
  hidden_weight ~ normal(0, weight_sd);
  output_weight ~ normal(0, weight_sd);
  output_bias ~ normal(0, weight_sd);
  sigma ~ gamma(sigma_shape, sigma_rate);
  y ~ normal_id_glm(hidden(hidden_weight, x, width), output_bias,
                    output_weight,
                    noise_sd > 0 ? noise_sd : square(sigma[1]));
}
